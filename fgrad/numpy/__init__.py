"""NumPy's names, dispatched directly: `import fgrad.numpy as np`.

Functions with a derivative rule come from fgrad, which saves NumPy's dispatch, and the constructors
(`zeros`, `array`, `full`, ...) return Tensors. Everything else is NumPy's own object, also in `fgrad.numpy.linalg`,
`fft`, `random` and `polynomial`, which can be imported as modules; `fft.fftfreq` and `rfftfreq` take a `dtype`, too.

    >>> import fgrad as fg, fgrad.numpy as np
    >>> def powers(x):
    ...     result = np.zeros(3)
    ...     for i in range(3):
    ...         result[i] = x**i
    ...     return np.sum(result)
    >>> fg.grad(powers)(3.0)
    Tensor(7.)
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as _numpy

from fgrad.core.foreign import OVERRIDES
from fgrad.core.primitive import BOXES, FUNCTIONS, UFUNCS
from fgrad.core.tensor import apply
from fgrad.core.tree import flatten
from fgrad.errors import hints
from fgrad.ops.creation import CONSTRUCTORS, EXTENSIONS
from fgrad.typing import Operand


def _direct(ufunc: _numpy.ufunc) -> Callable[..., Any]:
    """Return a function that does what the ufunc does, without NumPy's dispatch."""
    primitive, count = UFUNCS[ufunc], ufunc.nin

    @functools.wraps(ufunc)
    def call(*args: Operand, **keywords: object) -> Any:
        # Further arguments are arrays to write into.
        return ufunc(*args, **keywords) if keywords or len(args) != count else apply(primitive, args)

    for method in ("reduce", "accumulate", "reduceat", "outer", "at"):
        setattr(call, method, getattr(ufunc, method))
    return call


def _direct_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls what answers NumPy's on tensors, and NumPy's own where there are none."""
    answer = FUNCTIONS[function]

    @functools.wraps(function)
    def call(*args: Operand, **keywords: object) -> Any:
        for arg in (*args, *keywords.values()) if keywords else args:
            if OVERRIDES[type(arg)]:
                return function(*args, **keywords)
        for arg in args:
            if type(arg) in BOXES:
                return answer(*args, **keywords)
        if not BOXES.isdisjoint(map(type, flatten((args, keywords))[0])):  # `any` may be NumPy's in this module
            return answer(*args, **keywords)
        return function(*args, **keywords)

    return call


def __getattr__(name: str) -> Any:
    if name in CONSTRUCTORS:
        return CONSTRUCTORS[name]
    if name in EXTENSIONS:
        return EXTENSIONS[name]()
    value = _numpys(name) if name != "fft" else importlib.import_module(f"{__name__}.fft")
    if isinstance(value, _numpy.ufunc) and value in UFUNCS:
        value = _direct(value)
    elif callable(value) and not isinstance(value, (type, _numpy.ufunc)) and value in FUNCTIONS:
        value = _direct_function(value)
    globals()[name] = value
    return value


def _numpys(name: str) -> Any:
    """Return NumPy's object of a name, with a hint for one that NumPy has never had."""
    try:
        return getattr(_numpy, name)
    except AttributeError as error:
        if str(error) != f"module 'numpy' has no attribute {name!r}":  # NumPy says what became of names that it had
            raise
        raise hints.missing_name(__name__, name) from None


def isscalar(element: Any) -> bool:
    """Return whether an object is a number, as a tensor of shape `()` is one; see `numpy.isscalar`.

    Example:
        >>> import fgrad as fg, fgrad.numpy as np
        >>> fg.grad(lambda x: x * x if np.isscalar(x) else np.sum(x))(3.0)
        Tensor(6.)
    """
    return _numpy.shape(element) == () if type(element) in BOXES else _numpy.isscalar(element)


def __dir__() -> list[str]:
    return sorted({*dir(_numpy), *EXTENSIONS})
