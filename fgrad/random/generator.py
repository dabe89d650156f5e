"""NumPy's random number generator, whose draws have derivatives with respect to distribution parameters.

default_rng(seed)    a generator, like `np.random.default_rng(seed)`, with the same numbers
Generator            its class, a subclass of NumPy's

A method without traced arguments is NumPy's own. With traced arguments it is one of these:

    MOVED       noise from NumPy's generator, transformed by the parameters (`_moved.py`)
    IMPLICIT    NumPy's draw, with a velocity for each parameter (`_implicit.py`, which needs SciPy)
    COUNTS      a discrete draw: it has no derivative, and a differentiated parameter raises an error
    ARRANGED    elements of a traced array in another order, with their derivatives
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import apply
from fgrad.core.trace import running
from fgrad.ops.tracing import first_example, raw_array
from fgrad.random._arguments import (
    check_constant,
    check_has_value,
    check_values,
    is_involved,
    shape_of,
    signature,
    sizes_in,
)
from fgrad.random._drawing import counts, each, given, own, rows, sizes
from fgrad.random._moved import MOVED, Moved
from fgrad.random._normal import by_cholesky, by_eigenvalues
from fgrad.typing import ArrayLike, DTypeLike

_NUMPYS: Any = np.random.Generator


class Generator(np.random.Generator):
    """A random number generator: NumPy's, with derivatives with respect to the parameters of distributions.

    Methods, arguments and numbers are those of `numpy.random.Generator`. If an argument is traced, the result is
    traced, too: draws of continuous distributions are differentiable functions of their parameters, and permuted or
    chosen elements keep their derivatives. A discrete draw has no derivative; see `fg.score_function`. Under `fg.vmap`
    numbers are drawn separately for each example.

    Args:
        bit_generator: the source of random bits, such as `np.random.PCG64(seed)`.

    Raises:
        AttributeError: it is not a bit generator; the message is NumPy's.

    Its methods raise NumPy's errors for invalid parameters, and besides:

        NoDerivativeError: a ValueError; the parameter of a discrete draw is differentiated.
        MissingRuleError: a TypeError; a parameter of a noncentral distribution is differentiated.
        ConcretizationError: a TypeError; a parameter belongs to a program that is being recorded, as by `fg.compile`.
        InPlaceError: a TypeError; `out` is an array, and a parameter is traced.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> rng = fg.random.Generator(np.random.PCG64(0))
        >>> fg.grad(lambda scale: rng.exponential(scale))(2.0) == np.random.default_rng(0).exponential()
        Tensor(True)
    """

    def __init__(self, bit_generator: np.random.BitGenerator) -> None:
        super().__init__(bit_generator)
        self._plain: Any = np.random.Generator(bit_generator)  # NumPy's methods call each other

    def __reduce__(self) -> Any:
        return Generator, (self.bit_generator,)


def default_rng(seed: Any = None) -> Generator:
    """Return a generator with the numbers of `np.random.default_rng(seed)`, and derivatives for parameters.

    Args:
        seed: an integer, or another type that NumPy accepts: a `SeedSequence`, a `BitGenerator` or a generator, whose
            stream is continued. None means a new seed in each call.

    Returns:
        A `Generator`; a given one is returned itself.

    Raises:
        TypeError, ValueError: the seed is invalid; the message is NumPy's.

    Example:
        >>> import fgrad as fg
        >>> rng = fg.random.default_rng(0)
        >>> def cost(mean, spread):
        ...     return rng.normal(mean, spread, size=100_000).var()
        >>> [round(float(slope), 1) for slope in fg.grad(cost, argnums=(0, 1))(1.0, 3.0)]
        [0.0, 6.0]
    """
    generator = _NUMPYS(seed) if isinstance(seed, np.random.BitGenerator) else np.random.default_rng(seed)
    return generator if isinstance(generator, Generator) else Generator(generator.bit_generator)


# The methods: NumPy's own unless an argument is traced, or they are called under `vmap`

Answer = Callable[..., Any]


def _enter(name: str, words: str, answer: Answer) -> None:
    """Replace a method by a function if it is called with tensors or under `vmap`."""
    numpys, bind = getattr(_NUMPYS, name), signature(words)

    @functools.wraps(numpys)
    def method(self: Generator, *args: object, **keywords: object) -> Any:
        if not running.maps and not is_involved(args) and not (keywords and is_involved(keywords.values())):
            return numpys(self, *args, **keywords)
        try:
            bound = bind.bind(*args, **keywords)
        except TypeError:
            numpys(self, *args, **keywords)  # to raise NumPy's error
            raise
        bound.apply_defaults()
        return answer(self, **bound.arguments)

    method.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD), *bind.parameters.values()]
    )
    setattr(Generator, name, method)


def _parameters(name: str, values: dict[str, Any]) -> list[Any]:
    """Return parameters as numbers, arrays and tensors."""
    found = [x if type(x) in (int, float) else as_array(x) for x in values.values()]
    if any(np.iscomplexobj(x) for x in found):
        raise errors.DtypeError(f"rng.{name} takes real parameters, but one is complex.\n  at {errors.users_line()}")
    return found


def _no_out(name: str, out: object) -> None:
    if out is not None:
        raise errors.InPlaceError(f"rng.{name}", errors.users_line())


def _noise(self: Generator, name: str, shape: object, **options: object) -> Any:
    """Draw numbers of a distribution without parameters, separately for each example."""
    return given(np.asarray(getattr(self._plain, name)(size=(*sizes(), *sizes_in(shape)), **options))[()])


def _moved(name: str, law: Moved) -> Answer:
    numpys = getattr(_NUMPYS, name)

    def answer(self: Generator, size: object, **values: object) -> Any:
        parameters = _parameters(name, values)
        shape = shape_of(numpys, parameters, size)
        check_values(numpys, parameters)
        return law.move(_noise(self, law.noise, shape), *parameters)

    return answer


def _implicit(name: str) -> Answer:
    numpys = getattr(_NUMPYS, name)

    def answer(
        self: Generator, size: object, dtype: DTypeLike | None = None, out: object = None, **values: object
    ) -> Any:
        _no_out(name, out)
        parameters = _broadcast(numpys, _parameters(name, values), size)
        check_has_value(name, parameters)
        options = {} if dtype is None else {"dtype": dtype}
        law = importlib.import_module("fgrad.random._implicit").IMPLICIT[name]
        return law.draw(parameters, functools.partial(getattr(self._plain, name), **options))

    return answer


def _broadcast(numpys: Answer, parameters: list[Any], size: object) -> list[Any]:
    """Return parameters that broadcast to the shape of the result, one of them mapped."""
    shape = shape_of(numpys, parameters, size)
    place = next((i for i, x in enumerate(parameters) if type(x) in BOXES), 0)
    if np.broadcast_shapes(*map(np.shape, parameters)) != shape:
        parameters[place] = np.broadcast_to(parameters[place], shape)
    parameters[place] = own(parameters[place])
    return parameters


def _counted(name: str) -> Answer:
    numpys = getattr(_NUMPYS, name)

    def answer(self: Generator, size: object, **values: object) -> Any:
        options = {key: values.pop(key) for key in ("dtype", "endpoint") if key in values}
        values = {key: x for key, x in values.items() if x is not None}  # the upper end of `integers`
        parameters = _parameters(name, values)
        check_has_value(name, parameters)
        check_constant(name, dict(zip(values, parameters, strict=True)))
        parameters = _broadcast(numpys, parameters, size)
        return apply(counts, parameters, {"draw": functools.partial(getattr(self._plain, name), **options)})

    return answer


def _in_rows(name: str, along: str) -> Answer:
    """Return the method of a discrete distribution of vectors, whose parameter is a vector."""

    def answer(self: Generator, **values: Any) -> Any:
        arrays = {key: as_array(values.pop(key)) for key in (along, "n") if key in values}
        check_has_value(name, arrays.values())
        check_constant(name, arrays)
        first, *others = arrays.values()

        def draw(first: Any, *others: object) -> Any:
            return getattr(self._plain, name)(*others, first, **values)

        return apply(rows, (own(first), *others), {"draw": draw})

    return answer


def _without_parameters(name: str) -> Answer:
    def answer(self: Generator, size: object, out: object = None, **options: object) -> Any:
        _no_out(name, out)
        return _noise(self, name, size, **options)

    return answer


def _refused(name: str, instead: str) -> Answer:
    """Return the method of a distribution without derivatives, with a hint on what to write instead."""
    discrete = _counted(name)

    def answer(self: Generator, **values: object) -> Any:
        try:
            return discrete(self, **values)
        except errors.NoDerivativeError:
            raise errors.MissingRuleError(f"rng.{name}", errors.users_line(), instead=instead) from None

    return answer


def _multivariate_normal(
    self: Generator, mean: ArrayLike, cov: ArrayLike, size: object, check_valid: str, tol: float, method: str
) -> Any:
    mean, cov = as_array(mean), as_array(cov)
    check_has_value("multivariate_normal", (mean, cov))
    options = {"check_valid": check_valid, "tol": tol, "method": method}
    shape = sizes_in(size)
    plain = [first_example(x) for x in (mean, cov)]
    _NUMPYS.multivariate_normal(np.random.default_rng(0), *plain, size=0, **options)  # for its checks and messages
    if method == "cholesky":
        noise = _noise(self, "standard_normal", (*shape, mean.shape[-1]))
        return mean + by_cholesky(cov, noise)
    draw = functools.partial(self._plain.multivariate_normal, np.zeros(mean.shape), size=shape or None, **options)
    return mean + by_eigenvalues(own(cov), draw)


def _dirichlet(self: Generator, alpha: ArrayLike, size: object) -> Any:
    alpha = own(as_array(alpha))
    check_has_value("dirichlet", (alpha,))
    shape = sizes_in(size)
    _NUMPYS.dirichlet(np.random.default_rng(0), first_example(alpha))  # for its checks and messages
    law = importlib.import_module("fgrad.random._implicit")
    return law.dirichlet(alpha, functools.partial(self._plain.dirichlet, size=shape or None), len(shape))


# Permuted elements: NumPy draws indices, and the elements are taken


def _permutation(self: Generator, x: ArrayLike, axis: int) -> Any:
    if np.ndim(x) == 0:
        count = int(raw_array(x)) if type(x) in BOXES else x
        return each(lambda: self._plain.permutation(count))
    x = as_array(x)
    length = x.shape[axis]
    return np.take(own(x), each(lambda: self._plain.permutation(length)), axis)


def _shuffle(self: Generator, x: Any, axis: int) -> None:
    if type(x) not in BOXES:
        raise errors.UnsupportedError(
            "rng.shuffle under vmap would permute each example differently, but the array is shared by all.\n"
            f"  at {errors.users_line()}\nWrite x = rng.permutation(x)."
        )
    x[...] = _permutation(self, x, axis)


def _permuted(self: Generator, x: ArrayLike, axis: int | None, out: Any) -> Any:
    x = as_array(x)
    shape = x.shape
    if axis is None:
        flat, places = np.reshape(x, (-1,)), np.arange(x.size)
        result = np.reshape(np.take(own(flat), each(lambda: self._plain.permuted(places))), shape)
    else:
        lengths = [n if place == axis % len(shape) else 1 for place, n in enumerate(shape)]
        places = np.broadcast_to(np.reshape(np.arange(shape[axis]), lengths), shape)
        result = np.take_along_axis(own(x), each(lambda: self._plain.permuted(places, axis=axis)), axis)
    if out is None:
        return result
    if type(out) not in BOXES:
        raise errors.InPlaceError("rng.permuted", errors.users_line())
    out[...] = result
    return out


def _choice(
    self: Generator, a: ArrayLike, size: object, replace: bool, p: ArrayLike | None, axis: int, shuffle: bool
) -> Any:
    whole = np.ndim(a) == 0
    count = int(raw_array(a)) if whole else np.shape(a)[axis]

    def draw(*p: object) -> Any:
        return self._plain.choice(count, size, replace, *p or (None,), 0, shuffle)

    if type(p) in BOXES or isinstance(p, (list, tuple)):
        p = as_array(p)
        check_has_value("choice", (p,))
        check_constant("choice", {"p": p})
        places = apply(rows, (own(p),), {"draw": draw})
    else:
        places = each(lambda: draw(p))
    return places if whole else np.take(own(as_array(a)), places, axis)


COUNTS = {
    "binomial": "n p",
    "geometric": "p",
    "hypergeometric": "ngood nbad nsample",
    "integers": "low high=None",
    "logseries": "p",
    "negative_binomial": "n p",
    "poisson": "lam=1.0",
    "zipf": "a",
}
_SHAPES = {
    "beta": "a b",
    "chisquare": "df",
    "f": "dfnum dfden",
    "gamma": "shape scale=1.0",
    "standard_t": "df",
    "vonmises": "mu kappa",
    "wald": "mean scale",
}
_INSTEAD = {
    "noncentral_chisquare": (
        "df nonc",
        "For df above 1 it is rng.chisquare(df - 1) + (rng.standard_normal() + np.sqrt(nonc)) ** 2.",
    ),
    "noncentral_f": (
        "dfnum dfden nonc",
        "For dfnum above 1 it is (rng.chisquare(dfnum - 1) + (rng.standard_normal() + np.sqrt(nonc)) ** 2) / dfnum "
        "/ (rng.chisquare(dfden) / dfden).",
    ),
}
for _name, _law in MOVED.items():
    _enter(_name, f"{_law.parameters} size=None", _moved(_name, _law))
for _name, _words in _SHAPES.items():
    _enter(_name, f"{_words} size=None", _implicit(_name))
for _name, _words in COUNTS.items():
    _enter(_name, f"{_words} size=None" + " dtype='int64' endpoint=False" * (_name == "integers"), _counted(_name))
for _name, (_words, _sentence) in _INSTEAD.items():
    _enter(_name, f"{_words} size=None", _refused(_name, _sentence))
for _name in ("random", "standard_normal"):
    _enter(_name, "size=None dtype='float64' out=None", _without_parameters(_name))
_enter(
    "standard_exponential",
    "size=None dtype='float64' method='zig' out=None",
    _without_parameters("standard_exponential"),
)
_enter("standard_cauchy", "size=None", _without_parameters("standard_cauchy"))
_enter("standard_gamma", "shape size=None dtype='float64' out=None", _implicit("standard_gamma"))
_enter("multinomial", "n pvals size=None", _in_rows("multinomial", "pvals"))
_enter(
    "multivariate_hypergeometric",
    "colors nsample size=None method='marginals'",
    _in_rows("multivariate_hypergeometric", "colors"),
)
_enter("multivariate_normal", "mean cov size=None check_valid='warn' tol=1e-8 method='svd'", _multivariate_normal)
_enter("dirichlet", "alpha size=None", _dirichlet)
_enter("permutation", "x axis=0", _permutation)
_enter("shuffle", "x axis=0", _shuffle)
_enter("permuted", "x axis=None out=None", _permuted)
_enter("choice", "a size=None replace=True p=None axis=0 shuffle=True", _choice)
