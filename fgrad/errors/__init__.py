"""The errors and warnings of fgrad, each with a program that causes it and the program to write instead.

Every class derives from `FgradError` and from the matching built-in exception, so `except ValueError` works as
elsewhere in Python. The examples below run as tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from fgrad.errors.numpy_warnings import name_users_line as _name_users_line
from fgrad.errors.places import line_at as line_at
from fgrad.errors.places import line_of as line_of
from fgrad.errors.places import users_line as users_line
from fgrad.errors.places import users_place as users_place

__all__ = [
    "ArrayConversionError", "AxisError", "BasisWarning", "CloseValuesWarning", "ClosureError", "CompileWarning",
    "ConcretizationError", "ConvergenceError", "CustomRuleError", "DetachedError", "DivergenceError", "DtypeError",
    "ExportError", "FailedPreconditionError", "FetchError", "FgradError", "FrozenValueError", "GradientCheckError",
    "GraphInputError", "InPlaceError", "IntegerInputError", "IntegerRangeError", "InvalidArgumentError",
    "KeywordError", "LeakedTensorError", "LoadError", "LoopWarning", "MissingExtraError", "MissingMemberError",
    "MissingNameError", "MissingRuleError", "MovingStepWarning", "NoClosedFormError", "NoDerivativeError",
    "NoGradientWarning", "NoGradientsError", "NoResultError", "NoVariablesError", "NonFiniteError",
    "NonFiniteGradientWarning", "NonNumericInputError", "NonScalarError", "NotCallableError", "NotLoweredError",
    "ObjectArrayError", "OutputError", "OverwrittenError", "ParameterError", "PartitionError", "PayloadError",
    "RecordedAssignmentError", "ReplacedPrimitiveWarning", "RerunError", "SaveError", "ScipyCallError", "SeedError",
    "SessionError", "ShapeError", "SharedDrawsWarning", "SingularEquationError", "SourceError", "SparsityError",
    "StateError", "StateWarning", "StructureError", "SymbolicArrayError", "SymbolicTensorError", "TangentError",
    "TapeError", "TapeStateError", "UnsupportedError", "UnusedRuleWarning", "UpdateError", "VariableScopeError",
    "WatchError", "WeaklyActiveWarning", "ZeroTimesInfinityWarning",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


_PLACED = re.compile(r"\bat \S+:\d+")
"""Matches a place, `at file:line`, in a message."""


class FgradError(Exception):
    """The base of all of fgrad's errors; every message names the user's line and the class of the error.

    >>> import fgrad as fg
    >>> try:
    ...     fg.grad(3.0)
    ... except fg.errors.FgradError as error:
    ...     print(error)
    grad takes a function, not 3.0 of type float.
    Pass the function itself, without calling it: grad(f)(x), not grad(f(x)).
      at ...
    (help: fgrad.errors.NotCallableError)
    """

    def __init__(self, message: str) -> None:
        place = "" if _PLACED.search(message) else f"\n  at {users_line()}"
        super().__init__(f"{message}{place}\n(help: fgrad.errors.{type(self).__name__})")

    @classmethod
    def _saying(cls, message: str) -> Self:
        """Return the error with a message of its own, in place of the one that its class makes."""
        error = cls.__new__(cls)
        FgradError.__init__(error, message)
        return error

    def __reduce__(self) -> Any:
        return _restored, (type(self), str(self)), self.__dict__ or None  # among others the notes


def _restored(cls: type[FgradError], message: str) -> FgradError:
    """Recreate an error from its message, for `pickle` and `copy`."""
    error = cls.__new__(cls, message)
    error.args = (message,)
    return error


class DetachedError(FgradError, TypeError):
    """A traced tensor was converted to a plain number, or a result is one: the derivative would be lost.

        >>> import math, numpy as np, fgrad as fg
        >>> fg.grad(lambda x: x + math.sin(x))(0.0)
        Traceback (most recent call last):
        fgrad.errors.DetachedError: ...

    `float(x)`, `complex(x)` and all functions that call them do the same. Write NumPy's function in place of that of
    `math` or `cmath`, and the tensor itself in place of `float(x)`:

        >>> fg.grad(lambda x: x + np.sin(x))(0.0)
        Tensor(2.)

    Inspection of a value is allowed: comparisons, `if`, `int`, `round`, formatting. So are explicit requests:

        >>> losses = []
        >>> def loss(x):
        ...     value = np.sum(x**2)
        ...     losses.append(value.item())
        ...     print(f"{value:.1f}")
        ...     return value
        >>> fg.grad(loss)(np.array([1.0, 2.0]))
        5.0
        Tensor([2., 4.])

    For a number that is meant to be a constant, write `fg.stop_gradient(x)`.
    """

    @classmethod
    def of_number(cls, function: str, line: str) -> DetachedError:
        """Return the error for a function that requests a plain number from a traced tensor."""
        return cls(
            f"{_AS_WRITTEN.get(function, function)} requested a plain number from a traced tensor; its derivative "
            f"would be lost.\n  at {line}\n{instead_of_number(function)}"
        )


def instead_of_number(function: str) -> str:
    """Return a hint on what to write in place of a function that takes plain numbers."""
    look = "x.item() for the plain number, or fg.stop_gradient(x) for a constant."
    if function == "float":
        return f"Write x itself for float(x); {look}"
    if function == "complex":
        return f"Write a + 1j * b for complex(a, b); {look}"
    if function == "%":
        return f'Write f"{{x:.3f}}" for "%.3f" % x; {look}'
    if not function:
        return f"Write np.sin for math.sin or cmath.sin, x itself for float(x) or complex(x); {look}"
    name = function.partition(".")[2]
    if function not in _OTHER_NAMES and not hasattr(np, name):
        return f"Write {function}(x.item()), which gives the plain value."
    numpys = _OTHER_NAMES.get(function, f"np.{name}")
    return f"Write {numpys} for {function}; {look}"


_AS_WRITTEN = {"": "Something", "float": "float()", "complex": "complex()", "%": "Formatting by %"}

_OTHER_NAMES = {
    "math.fabs": "np.abs",
    "math.fmod": "np.fmod",
    "math.remainder": "x - y * np.round(x / y)",
    "math.fma": "x * y + z",
    "math.ulp": "np.spacing",
    "math.dist": "np.linalg.norm(x - y)",
    "math.hypot": "np.hypot(x, y), or np.linalg.norm(x) of several numbers,",
    "math.fsum": "np.sum",
    "math.sumprod": "np.dot",
    "math.comb": "scipy.special.comb",
    "math.erf": "scipy.special.erf",
    "math.erfc": "scipy.special.erfc",
    "math.gamma": "scipy.special.gamma",
    "math.lgamma": "scipy.special.gammaln",
    "cmath.phase": "np.angle",
    "cmath.polar": "np.abs and np.angle",
    "cmath.rect": "r * np.exp(1j * phi)",
    "statistics.mean": "np.mean(np.stack(values))",
    "statistics.fmean": "np.mean(np.stack(values))",
    "statistics.geometric_mean": "np.exp(np.mean(np.log(np.stack(values))))",
    "statistics.harmonic_mean": "1 / np.mean(1 / np.stack(values))",
    "statistics.stdev": "np.std(np.stack(values), ddof=1)",
    "statistics.variance": "np.var(np.stack(values), ddof=1)",
    "statistics.pstdev": "np.std(np.stack(values))",
    "statistics.pvariance": "np.var(np.stack(values))",
    "statistics.covariance": "np.cov(np.stack(x), np.stack(y))[0, 1]",
    "statistics.correlation": "np.corrcoef(np.stack(x), np.stack(y))[0, 1]",
    "statistics.linear_regression": "np.polyfit(np.stack(x), np.stack(y), 1)",
}
"""Names of functions of `math` and `statistics` in NumPy and SciPy, where they differ."""


class ArrayConversionError(DetachedError):
    """NumPy requested a plain array from a traced tensor, which would drop its derivative.

    The mistake; `x.astype(float)` of an array of traced numbers, `np.float64(x)` and `result[i] = x` with a plain array
    are similar:

        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda x: np.sum(np.array([x, x * x], dtype=float)))(3.0)
        Traceback (most recent call last):
        fgrad.errors.ArrayConversionError: ...

    Stack the tensors, or omit the dtype, and create arrays to fill with functions of `fgrad.numpy`:

        >>> fg.grad(lambda x: np.sum(np.stack([x, x * x])))(3.0)
        Tensor(7.)
        >>> fg.grad(lambda x: np.sum(np.array([x, x * x])))(3.0)
        Tensor(7.)

        >>> import fgrad.numpy as fnp
        >>> def powers(x):
        ...     result = fnp.zeros(3)
        ...     for i in range(3):
        ...         result[i] = x**i
        ...     return np.sum(result)
        >>> fg.grad(powers)(3.0)
        Tensor(7.)

    For a value that is meant to be a constant, write `fg.stop_gradient(x)`, or `x.numpy()` for an array.
    """

    def __init__(self, line: str, use: str = "") -> None:
        remedies = "\n".join(self.remedies(use) or [remedy for _, remedy in _ARRAY_REMEDIES])
        super().__init__(
            "NumPy requested a plain array from a traced tensor; its derivative would be lost.\n"
            f"  at {line}\n{remedies}"
        )

    @staticmethod
    def remedies(use: str) -> list[str]:
        """Return hints on what to write instead of an expression; empty if there are none."""
        return [remedy for pattern, remedy in _ARRAY_REMEDIES if re.search(pattern, use)]


class ObjectArrayError(ArrayConversionError):
    """A function does not support an array built from traced numbers, which is an object array to NumPy.

    The mistake:

        >>> import numpy as np, fgrad as fg
        >>> def inverse(x):
        ...     return np.sum(np.linalg.inv(np.array([[x, 1.0], [0.0, x]])))
        >>> fg.grad(inverse)(2.0)
        Traceback (most recent call last):
        fgrad.errors.ObjectArrayError: ...

    Build one tensor, with `fgrad.numpy.array` or `np.stack` of rows:

        >>> import fgrad.numpy as fnp
        >>> fg.grad(lambda x: np.sum(np.linalg.inv(fnp.array([[x, 1.0], [0.0, x]]))))(2.0)
        Tensor(-0.25)
    """

    def __init__(self, reason: str, line: str, built: str, function: str = "", is_labelled: bool = False) -> None:
        where = f"  at {line}\n" + (f"  it was built at {built}\n" if built else "")
        remedy = "np.array([x, y]):  write fgrad.numpy.array([x, y]) (also fg.stack([x, y])), which makes one tensor."
        remedy = _FOR_LABELLED if is_labelled else remedy
        FgradError.__init__(
            self,
            "This function needs floating-point numbers, and does not support an array of traced numbers "
            f"({reason}).\n{where}" + (_FOR_NDITER if "NPY_ITER" in reason else _instead_of_series(function) or remedy),
        )


_FOR_NDITER = "np.nditer(x):  write operations on whole arrays, or `for element in np.ravel(x)`."


def _instead_of_series(function: str) -> str:
    """Return a hint for a fit or a root finder of `numpy.polynomial`; empty for another function."""
    for kind, remedy in _SERIES_REMEDIES.items():
        if function.endswith(kind):
            return remedy.replace("poly", function.removesuffix(kind))
    return ""


_SERIES_REMEDIES = {
    "fit": "polyfit(x, y, n):  write np.linalg.lstsq(fgrad.numpy.array(polyvander(x, n)), y)[0]. The class method fit "
    "takes x to the window of its class first: np.polynomial.polyutils.mapdomain(x, (x.min(), x.max()), window).",
    "roots": "polyroots(c):      write np.linalg.eigvals(fgrad.numpy.array(polycompanion(c))), with "
    "fgrad.numpy.array(p.coef) for the coefficients of a series p.",
}
"""Hints for all kinds of series, with the names for power series; others have another prefix."""


WITHOUT_VALUES = (
    "Arithmetic of np.polynomial (+, -, *, //, %, **, polymul and conversions) looks at the values of coefficients, "
    "and under vmap and in a recorded program, as for fg.compile, there are none. Compute with the arrays of "
    "coefficients, which np.polyadd, polysub, polymul, polydiv and polyval take with the highest power first: "
    "np.polymul(a, b)."
)
"""A hint for arithmetic of a `Polynomial` or another series."""

_FOR_LABELLED = (
    "np.median(s):      for this function pass the numbers without labels, s.to_numpy() of a Series, "
    "fgrad.numpy.array(d) of a DataFrame, a.data of a DataArray: these are tensors."
)

_ARRAY_REMEDIES = (
    (r"^s\.to_numpy", _FOR_LABELLED),
    (r"\barray\(", "np.array([x, y]): write np.stack([x, y]) (also fg.stack, fgrad.numpy.array)."),
    (
        r"^(np|numpy)\.(?!as|array|arange|full|random|float|complex|vectorize)\w+\(",
        "np.mean([x, y]):  write np.mean(np.stack([x, y])), and the same for any list of traced tensors.\n"
        "f([1.0, 2.0]):    an argument that is a list becomes a list of tensors: pass np.array([1.0, 2.0]).",
    ),
    (
        r"\] = ",
        "result[i] = x:    create `result` with fgrad.numpy.zeros, empty or array instead of numpy's, or by "
        "np.zeros_like(x, shape=(3, 3)); or collect the values, and write np.stack(values), or "
        "np.array([[x, 0.0], [0.0, y]]).",
    ),
    (
        r"^(?!np\.[rc]_).*\]$",
        "a[x]:             an index must be an integer: int(x), or x.astype(int), which have no derivative.",
    ),
    (r"\bfull\(", "np.full(n, x):    use fgrad.numpy.full."),
    (r"^np\.r_", "np.r_[x, 1.0]:    write np.concatenate([x, [1.0]])."),
    (r"^np\.c_", "np.c_[x, y]:      write np.column_stack([x, y])."),
    (
        r"^array \S+ x$",
        "array * [x, y]:   write array * np.stack([x, y]); a tensor can be an operand, a list of tensors cannot.",
    ),
    (
        r"\barange\(",
        "np.arange(0, x, h): the number of elements has no derivative: np.arange(0, x.item(), h). If the "
        "elements depend on x, write start + h * np.arange(n).",
    ),
    (
        r"\b(permutation|permuted|choice)\(",
        "rng.permutation(x): make rng by fg.random.default_rng(seed), which supports derivatives; or draw indices "
        "instead of elements: x[rng.permutation(len(x))], x[rng.choice(len(x), n)].",
    ),
    (
        r"(?i)^(?!.*\b(permutation|permuted|choice)\().*(random|rng|\.(normal|uniform)\()",
        "rng.normal(x, s): make rng by fg.random.default_rng(seed), which differentiates its draws; or draw numbers "
        "that do not depend on x, then shift and scale them: x + s * rng.normal().",
    ),
    (r"vectorize\(.*otypes", "np.vectorize(f, otypes=[float]) makes a plain array: omit otypes, or write fg.vmap(f)."),
    (
        r"vectorize\((?!.*otypes)",
        "np.vectorize(f):  call f itself if it is made of NumPy's functions, or write fg.vmap(f); or omit otypes.",
    ),
    (
        r"^as_strided\(",
        "as_strided(x):     it needs memory, which a traced tensor does not have. For windows write "
        "np.lib.stride_tricks.sliding_window_view(x, n)[::step], for other views x[places] with an array of integers.",
    ),
    (
        r" @ |\bdot\(|matmul\(",
        "frame @ x:        with pandas, frame.to_numpy() @ x; x @ column and other operators work directly.",
    ),
    (
        r"^rolling",
        "s.rolling(n):      windows of a Series that holds tensors are not supported, nor are s.expanding() and "
        "s.ewm(): write np.lib.stride_tricks.sliding_window_view(s.to_numpy(), n), which has a row for each window.",
    ),
    (
        r"^s\.loc",
        "s.loc[i] = x:      a column of plain numbers cannot hold a tensor: values = fgrad.numpy.array(s.to_numpy()), "
        "then values[i] = x.",
    ),
    (
        r"^pd\.",
        "pd.Series(x):     compute with x itself, and convert the result: pd.Series(y) after the function has "
        "ended; x.numpy() is the plain value. For the product of a frame with x: df.to_numpy() @ x.",
    ),
    (
        r"\bas\w*(array|matrix)\w*\(|\b(float|complex)\d+\(",
        "np.asarray(x), np.float32(x): omit it (x.astype(dtype) for another dtype); or x.numpy(), "
        "fg.stop_gradient(x) if no derivative is needed.",
    ),
)
"""Hints, by a pattern of the expression in the user's program."""


class ScipyCallError(DetachedError):
    """A SciPy function that takes only plain arrays was called with a traced tensor.

    Its derivative would be lost:

        >>> import scipy.linalg, numpy as np, fgrad as fg
        >>> fg.grad(lambda a: np.sum(scipy.linalg.expm(a)))(np.eye(2))
        Traceback (most recent call last):
        fgrad.errors.ScipyCallError: ...

    The functions of `scipy.special` accept tensors. For others there is `fgrad.scipy`:

        >>> import fgrad.scipy.linalg
        >>> fg.grad(lambda a: np.sum(fgrad.scipy.linalg.expm(a)))(np.zeros((2, 2)))
        Tensor([[1., 1.],
                [1., 1.]])

    In other cases pass a value that is meant to be a constant as `x.numpy()`.
    """

    def __init__(self, called: str, line: str) -> None:
        super().__init__(
            f"{called} takes plain arrays, and was called with a traced tensor, or got one from your function; "
            f"its derivative would be lost.\n  at {line}\n{_instead_of_scipys(called)}"
        )


def _instead_of_scipys(called: str) -> str:
    """Return what to write in place of a SciPy function, such as `scipy.linalg.expm`."""
    remedy = next((text for pattern, text in _SCIPY_REMEDIES if re.search(pattern, called)), "")
    if not remedy and any(has(called) for has in HAS_TWIN):
        area = ".".join(called.split(".")[:2])
        return f"Write fgrad.{called}, which has the same arguments and a derivative (import fgrad.{area})."
    return remedy or _NOT_IN_SCIPY


_NOT_IN_SCIPY = (
    "It has no derivative in fgrad: write it with functions that have one (docs/coverage.md), add a rule with "
    "fg.custom_vjp, or pass x.numpy() or fg.stop_gradient(x) if no derivative is needed."
)
_SCIPY_REMEDIES = (
    (
        r"^scipy\.fft\.(fft|ifft|rfft|irfft|hfft|ihfft)[2n]?$|^scipy\.fft\.\w*(freq|shift)$",
        "The function of the same name in np.fft accepts tensors.",
    ),
    (
        r"^scipy\.sparse\.\w+_(array|matrix)\b",
        "a @ x, x @ a, x * a and a / x accept a traced x. For other operations, write fgrad.scipy.sparse.csr_array "
        "in place of SciPy's class, or fgrad.scipy.sparse.csr_array(a): its operators and methods accept tensors "
        "(import fgrad.scipy.sparse).",
    ),
)
"""Hints for functions and classes that have no counterpart of the same name in `fgrad.scipy`."""


HAS_TWIN: list[Callable[[str], bool]] = []
"""Tests whether `fgrad` has a function or class of the same name; filled by packages of higher layers."""


class ExportError(FgradError, TypeError, BufferError):
    """A traced tensor would leave Python or fgrad: by `pickle`, or by DLPack for another library.

    The receiver has no derivatives, so they would be lost:

        >>> import pickle, numpy as np, fgrad as fg
        >>> fg.grad(lambda x: np.sum(np.from_dlpack(x)))(np.ones(2))
        Traceback (most recent call last):
        fgrad.errors.ExportError: ...

    Pass the value if no derivative is needed, or the results, which are no longer traced:

        >>> kept = []
        >>> def loss(x):
        ...     kept.append(pickle.dumps(x.numpy()))
        ...     return np.sum(x)
        >>> np.from_dlpack(fg.grad(loss)(np.ones(2)))
        array([1., 1.])

    To use a function of another library with a rule, write `fg.custom_vjp`.
    """

    def __init__(self, how: str, line: str) -> None:
        super().__init__(
            f"{how} would take a traced tensor out of its trace, and its derivative would be lost.\n"
            f"  at {line}\n"
            "Use x.numpy(), or fg.stop_gradient(x) if no derivative is needed, or do it after the function or the "
            "tape's block has ended. For a function of another library, define a derivative with fg.custom_vjp."
        )


class OverwrittenError(FgradError, RuntimeError):
    """A large plain array was overwritten between its use in an operation and the backward pass.

    Arrays of up to 1 MiB are copied. A larger one is not copied: it is read-only until the transform has ended, and a
    write to it is an error. A pullback or a tape, which may be used later, compares a checksum. In this example the
    array is overwritten before the pullback is called:

        >>> import numpy as np, fgrad as fg
        >>> def f(x):
        ...     weights = np.ones((1000, 1000))
        ...     total = np.sum(weights * x)
        ...     weights[0] = 7.0
        ...     return total
        >>> fg.grad(f)(2.0)
        Traceback (most recent call last):
        fgrad.errors.OverwrittenError: ...

    Write into a new array, or pass a copy to the operation, `weights.copy() * x`:

        >>> def f(x):
        ...     weights = np.ones((1000, 1000))
        ...     total = np.sum(weights * x)
        ...     weights = np.zeros((1000, 1000))
        ...     return total
        >>> fg.grad(f)(2.0)
        Tensor(1000000.)
    """

    def __init__(
        self, name: str, shape: tuple[int, ...], line: str, what: str = "overwritten", written: str = "", count: int = 1
    ) -> None:
        array = f"a plain array of shape {shape}" + (f" (or one of {count - 1} more)" if count > 1 else "")
        super().__init__(
            f"{name} used {array}, which was {what} before the backward pass needed it.\n"
            f"  used at {line}\n"
            + (f"  written at {written}\n" if written else "")
            + "Write into another array, or pass a copy to the operation: array.copy()."
        )

    @classmethod
    def of_attribute(cls, name: str, attribute: str, line: str) -> OverwrittenError:
        """Return the error for a function that runs again, after an attribute that it uses was overwritten."""
        return cls._saying(
            f"{name} refers to {attribute}, which was overwritten before the backward pass needed it.\n  at {line}\n"
            "Pass it as an argument, or store it in a variable or in an instance of your own class, which are copied."
        )


class RerunError(FgradError, RuntimeError):
    """A function under `checkpoint` gives another result when it runs again in the backward pass.

    It returns another result, or uses other values, so its derivative would be wrong. Here the function counts its
    calls:

        >>> import numpy as np, fgrad as fg
        >>> calls = []
        >>> @fg.checkpoint
        ... def layer(x):
        ...     calls.append(x)
        ...     return x * len(calls)
        >>> fg.grad(layer)(3.0)
        Traceback (most recent call last):
        fgrad.errors.RerunError: ...

    Pass values that change as arguments:

        >>> layer = fg.checkpoint(lambda x, number: x * number)
        >>> fg.grad(layer)(3.0, 1)
        Tensor(1.)
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name}, which is under checkpoint, gives another result, or uses other values, when it runs again in the "
            "backward pass.\n"
            "Pass values that change between calls as arguments, such as the variable of a script's loop or an "
            "object's attribute, and values that it passes to other threads; it must not keep state between its runs, "
            "such as values in a cache, or a count."
        )


class InPlaceError(FgradError, TypeError):
    """A traced tensor would be written into a plain array, or apart from one that shares its elements.

        >>> import numpy as np, fgrad as fg
        >>> def total(x):
        ...     result = np.zeros(2)
        ...     result += x
        ...     return np.sum(result)
        >>> fg.grad(total)(np.ones(2))
        Traceback (most recent call last):
        fgrad.errors.InPlaceError: ...

    Return a new array, or make the array a tensor:

        >>> import fgrad.numpy as fnp
        >>> def total(x):
        ...     result = fnp.zeros(2)
        ...     result += x
        ...     return np.sum(result)
        >>> fg.grad(total)(np.ones(2))
        Tensor([1., 1.])

    Another write is an error, too: one to a tensor while a plain array of its elements is in use, which would not see
    it. Use the tensor itself, or a copy, `np.array(y)`:

        >>> def changed(x):
        ...     y = x * x
        ...     elements = np.asarray(y)
        ...     y *= 2
        ...     return np.sum(elements)
        >>> fg.grad(changed)(np.ones(2))
        Traceback (most recent call last):
        fgrad.errors.InPlaceError: ...

    In a recording, neither may a function that `cond` or `switch` selects write into tensors from outside of it. Nor
    may a function write into its arguments if a rule gives its derivative, as with `custom_vjp` or in a solver.
    """

    def __init__(self, what: str, line: str) -> None:
        super().__init__(
            f"{what} would write a tensor into a plain NumPy array (`out=`, or `a += x`), "
            f"which cannot hold a derivative.\n  at {line}\n"
            "Write `a = a + x`, or create `a` with fgrad.numpy.zeros, empty, full or array."
        )

    @classmethod
    def of_lent(cls, made: str, line: str) -> InPlaceError:
        """Return the error for a write to a tensor while a plain array of its elements is in use."""
        return cls._saying(
            "a traced tensor is written to while a plain array that NumPy made of it, as by np.asarray, is in use; the "
            f"write would not show in that.\n  made at {made}\n  written at {line}\n"
            "Use the tensor itself in place of np.asarray(x): NumPy's functions accept it. np.array(x) is a copy."
        )

    @classmethod
    def of_branch(cls, name: str, line: str) -> InPlaceError:
        """Return the error for a write of a branch into a tensor from outside, where all branches are recorded."""
        return cls._saying(
            f"{name} writes into a tensor from outside of it, and it is recorded although another one may run.\n"
            f"  at {line}\nReturn the new value, or write into a copy, such as y.copy()."
        )

    @classmethod
    def of_argument(cls, name: str, of_rule: bool, line: str, is_locked: bool = False) -> InPlaceError:
        """Return the error for a write of a function with a custom derivative, or of its rule, into an argument."""
        what = f"a rule gives the derivative of {name}, and {name} writes into one of its arguments"
        if of_rule:
            what = f"the rule of {name} writes into an argument or a result that it has kept"
        also = " Its large arrays can only be read; so can others in the same memory." if is_locked else ""
        return cls._saying(f"{what}, which others use, too.{also}\n  at {line}\nUse a copy, such as np.array(x).")

    @classmethod
    def of_residuals(cls, name: str, line: str) -> InPlaceError:
        """Return the error for a rule that is called again after it has changed what it keeps."""
        return cls._saying(
            f"the rule of {name} has changed what it keeps for the backward pass, and is called again.\n  at {line}\n"
            "Write into a copy, such as np.array(x)."
        )

    @classmethod
    def of_shared(cls, name: str, written: str, other: str, line: str) -> InPlaceError:
        """Return the error for a compiled function that writes into an argument in the memory of another one."""
        return cls._saying(
            f"{name} writes into its argument {written}, which shares memory with {other}; compiled code treats them "
            f"as separate arrays.\n  at {line}\nPass a copy of one of them."
        )

    @classmethod
    def of_engine(cls, name: str, written: str, line: str) -> InPlaceError:
        """Return the error for a write into an argument that is an immutable array of another library."""
        return cls._saying(
            f"{name} writes into its argument {written}, and arrays of JAX cannot be written to.\n  at {line}\n"
            "Pass a NumPy array, or write into a copy, such as np.array(x), and return it."
        )


class MissingRuleError(FgradError, TypeError, NotImplementedError):
    """A NumPy function has no derivative rule in fgrad.

        >>> import math, numpy as np, fgrad as fg
        >>> gamma = np.frompyfunc(math.gamma, 1, 1)
        >>> fg.grad(lambda x: gamma(x))(3.0)
        Traceback (most recent call last):
        fgrad.errors.MissingRuleError: ...

    Write it with operations that have a rule, or treat its result as a constant:

        >>> fg.grad(lambda x: x * gamma(fg.stop_gradient(x)))(4.0)
        Tensor(6.)

    `fgrad.extend` adds an operation with its rules.
    """

    def __init__(self, name: str, line: str, mode: str = "", instead: str = "") -> None:
        vectorized = "np.vectorize(f) has one, if f is made of NumPy functions.\n" if "(vectorized)" in name else ""
        instead = instead or vectorized + (
            "Write it with functions that have one, pass fg.stop_gradient(x) if no derivative is needed, "
            "or add a rule with fgrad.extend.register_primitive."
        )
        super().__init__(
            f"{name} has no {mode or 'derivative'} rule, and a traced tensor was passed to it.\n  at {line}\n{instead}"
        )


class MissingMemberError(MissingRuleError, AttributeError):
    """A traced tensor has no memory, so it does not have the attributes of NumPy arrays that describe it.

        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda x: x.strides[0] * np.sum(x))(np.ones(2))
        Traceback (most recent call last):
        fgrad.errors.MissingMemberError: ...

    `hasattr` is False for such an attribute. A tensor that is not traced has it, and so does the plain value:

        >>> fg.constant(np.ones(2)).strides
        (8,)
        >>> fg.grad(lambda x: x.numpy().strides[0] * np.sum(x))(np.ones(2))
        Tensor([8., 8.])
    """

    def __init__(self, name: str, line: str, called: str = "") -> None:
        super().__init__(f"ndarray.{name}", line, instead=_instead_of_scipys(called) if called else "")


class PayloadError(FgradError, TypeError):
    """An operation does not support arrays of another library, or arrays of objects that are numbers.

        >>> import numpy as np, fgrad as fg
        >>> from fractions import Fraction
        >>> x = np.array([Fraction(1, 2), Fraction(1, 3)])
        >>> fg.grad(lambda x: np.sum(np.sqrt(x)))(x)
        Traceback (most recent call last):
        fgrad.errors.PayloadError: ...

    Write it with operations that the library has, or convert to a NumPy array of floating-point numbers first:

        >>> fg.grad(lambda x: np.sum(x * x))(x).numpy()
        array([Fraction(1, 1), Fraction(2, 3)], dtype=object)
        >>> fg.grad(lambda x: np.sum(np.sqrt(x)))(np.array([0.25, 4.0]))
        Tensor([1.  , 0.25])
    """

    def __init__(self, name: str, library: str, line: str, reason: str) -> None:
        why = reason.strip().partition("\n")[0].removesuffix(".")
        super().__init__(
            f"{name} does not work on {library}: {why:.300}.\n  at {line}\n"
            "Use an operation that the library has, or a NumPy array of numbers: np.asarray(x, float), or for a sparse "
            "array x.todense()."
        )


class NoDerivativeError(FgradError, ValueError):
    """A result has no derivative at this point, or depends on an arbitrary choice of NumPy's.

    The vectors of a repeated eigenvalue, and the phase of complex vectors, are such choices:

        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda a: np.linalg.eigh(a)[1][1, 0])(np.eye(2))
        Traceback (most recent call last):
        fgrad.errors.NoDerivativeError: ...

    Make the loss independent of the choice, for example a function of the values or of the span:

        >>> def onto_span(a):
        ...     v = np.linalg.eigh(a)[1][:, :2]
        ...     return np.sum((v @ v.T)[0])
        >>> fg.grad(onto_span)(np.eye(3) + 1.0).round(6) + 0.0
        Tensor([[-0.222222,  0.      ,  0.      ],
                [-0.111111,  0.111111,  0.      ],
                [-0.111111,  0.222222,  0.111111]])
    """


class NoClosedFormError(FgradError, NotImplementedError):
    """A SciPy function has no closed-form derivative with respect to one of its arguments.

    The order of a Bessel function is such an argument. fgrad does not silently use a numerical difference:

        >>> import scipy.special, fgrad as fg
        >>> fg.grad(lambda order: scipy.special.jv(order, 1.5))(0.5)
        Traceback (most recent call last):
        fgrad.errors.NoClosedFormError: ...

    Differentiate with respect to the other arguments, and make this one a constant:

        >>> fg.grad(lambda x: scipy.special.jv(1, x))(0.0)
        Tensor(0.5)
    """

    def __init__(self, function: str, argument: str, instead: str, line: str) -> None:
        super().__init__(
            f"{function} has no closed-form derivative with respect to its argument {argument!r}, which is traced.\n"
            f"  at {line}\n"
            + (instead or f"Make {argument!r} a constant: fg.stop_gradient({argument}), or {argument}.numpy().")
        )


class UnsupportedError(FgradError, NotImplementedError):
    """A function of `fgrad.scipy` or `fgrad.compat` does not support an option of the original function.

        >>> import numpy as np, fgrad as fg
        >>> from fgrad.scipy.integrate import quad
        >>> fg.grad(lambda a: quad(lambda x: np.exp(a * x), 0, 1, weight="cos", wvar=2.0)[0])(1.0)
        Traceback (most recent call last):
        fgrad.errors.UnsupportedError: ...

    The message names the supported variant, or an alternative:

        >>> fg.grad(lambda a: quad(lambda x: np.exp(a * x) * np.cos(2.0 * x), 0, 1)[0])(1.0)
        Tensor(0.111229)
    """


class ConvergenceError(FgradError, RuntimeError):
    """A solver has not converged, so there is no solution to differentiate.

        >>> import fgrad as fg
        >>> import fgrad.scipy.optimize
        >>> def solved(a):
        ...     return fgrad.scipy.optimize.root_scalar(lambda x: x**3 - a, x0=100.0, method="newton", maxiter=3).root
        >>> fg.grad(solved)(8.0)
        Traceback (most recent call last):
        fgrad.errors.ConvergenceError: ...

    Allow more iterations, or start closer to the solution:

        >>> def solved(a):
        ...     return fgrad.scipy.optimize.root_scalar(lambda x: x**3 - a, x0=100.0, method="newton").root
        >>> fg.grad(solved)(8.0)
        Tensor(0.08333333)
    """


class SingularEquationError(FgradError, ValueError):
    """The equation that defines a solution does not determine it, so the solution has no derivative.

        >>> import numpy as np, fgrad as fg
        >>> solve = fg.implicit_diff(lambda a: np.array([a, a]), lambda x, a: np.stack([x[0] - a, x[0] - a]))
        >>> fg.jacobian(solve)(2.0)
        Traceback (most recent call last):
        fgrad.errors.SingularEquationError: ...

    Provide as many independent equations as unknowns:

        >>> solve = fg.implicit_diff(lambda a: np.array([a, a]), lambda x, a: np.stack([x[0] - a, x[1] - x[0]]))
        >>> fg.jacobian(solve)(2.0)
        Tensor([1., 1.])
    """


class SparsityError(FgradError, ValueError):
    """A sparse derivative has elements where its pattern has none, or more elements than fit in memory.

    A given pattern must hold for all points at which the derivative is computed:

        >>> import numpy as np, fgrad as fg
        >>> diagonal = np.eye(2, dtype=bool)
        >>> fg.sparse_jacobian(lambda x: x * x[::-1], sparsity=diagonal)(np.array([1.0, 2.0]))
        Traceback (most recent call last):
        fgrad.errors.SparsityError: ...

    Without `sparsity` the pattern is found by tracing the operations:

        >>> fg.sparse_jacobian(lambda x: x * x[::-1])(np.array([1.0, 2.0])).toarray()
        array([[2., 1.],
               [2., 1.]])
    """


class DivergenceError(FgradError, FloatingPointError):
    """The loss or a gradient became infinite or NaN, and `optimizers.run` stopped before that step.

        >>> import numpy as np, fgrad as fg
        >>> w = fg.Variable(0.0, name="w")
        >>> optimizer = fg.optimizers.GradientDescent(0.1)
        >>> fg.optimizers.run(lambda: np.sqrt(w * w), w, 100, optimizer, progress=False)
        Traceback (most recent call last):
        fgrad.errors.DivergenceError: ...

    Write an expression with a finite derivative there; if steps are too long, shorten them or clip the gradients:

        >>> fg.optimizers.run(lambda: np.abs(w), w, 100, optimizer, progress=False).stopped
        'steps'

    Attributes:
        history: the history up to that step, or None.
    """

    history: Any = None


class PartitionError(FgradError, RuntimeError):
    """A loss failed for a partition of `fgrad.distributed`, or a partition is lost.

        >>> import numpy as np
        >>> import fgrad.distributed
        >>> def loss(p, part):
        ...     return np.sum(p @ part)
        >>> parts = [np.ones((2, 3)), np.ones((3, 2))]
        >>> fgrad.distributed.value_and_grad(loss)(np.ones(2), parts)
        Traceback (most recent call last):
        fgrad.errors.PartitionError: ...

    The message names the partition and the line; the original exception is the cause. Here, transpose the second part:

        >>> fgrad.distributed.value_and_grad(loss)(np.ones(2), [parts[0], parts[1].T])
        (Tensor(12.), Tensor([6., 6.]))

    Attributes:
        partition: the number of the partition, from 0 on, or None if it is unknown.
    """

    partition: int | None

    def __init__(self, message: str, partition: int | None = None) -> None:
        super().__init__(message)
        self.partition = partition


class NotCallableError(FgradError, TypeError):
    """A transform got a value instead of a function, or a loop or solver got a function of other arguments.

        >>> import numpy as np, fgrad as fg
        >>> def f(x):
        ...     return x * x
        >>> fg.grad(f(3.0))
        Traceback (most recent call last):
        fgrad.errors.NotCallableError: ...

    Pass the function to the transform, and the argument to the function that it returns:

        >>> fg.grad(f)(3.0)
        Tensor(6.)

    A function that a loop or solver calls takes the arguments that it gets:

        >>> fg.scan(f, 0.0, np.arange(3.0))
        Traceback (most recent call last):
        fgrad.errors.NotCallableError: f of scan is called as f(carry, x), and f(x) takes fewer arguments.
        Give it the parameters (carry, x); one that it does not need may be called _.
        (help: fgrad.errors.NotCallableError)
        >>> fg.scan(lambda carry, x: (carry + x, f(x)), 0.0, np.arange(3.0))
        (np.float64(3.0), array([0., 1., 4.]))
    """


class ParameterError(FgradError, ValueError):
    """`params` or `argnums` is not valid for the function, or an option has an unknown value.

        >>> import fgrad as fg
        >>> def area(width, height):
        ...     return width * height
        >>> fg.gradients_function(area, params=["depth"])(2.0, 3.0)
        Traceback (most recent call last):
        fgrad.errors.ParameterError: area has no parameter 'depth'; its parameters are width, height.
        (help: fgrad.errors.ParameterError)

    Use existing names of parameters, or positions that count from 0:

        >>> fg.gradients_function(area, params=["height"])(2.0, 3.0)
        [Tensor(2.)]
        >>> fg.gradients_function(area, params=1)(2.0, 3.0)
        [Tensor(2.)]
    """


class NoResultError(FgradError, ValueError):
    """The function to differentiate returned None.

        >>> import fgrad as fg
        >>> def f(x):
        ...     y = x * x
        >>> fg.grad(f)(3.0)
        Traceback (most recent call last):
        fgrad.errors.NoResultError: ...

    Return the result:

        >>> def f(x):
        ...     y = x * x
        ...     return y
        >>> fg.grad(f)(3.0)
        Tensor(6.)
    """


class OutputError(FgradError, TypeError):
    """The function returned something that is not a number, array or tensor.

        >>> import fgrad as fg
        >>> fg.grad(lambda x: (x * x, "done"))(3.0)
        Traceback (most recent call last):
        fgrad.errors.OutputError: ...

    Return other results as aux:

        >>> fg.grad(lambda x: (x * x, "done"), has_aux=True)(3.0)
        (Tensor(6.), 'done')
    """


class NonScalarError(FgradError, TypeError):
    """The result of a function passed to `grad` is not one real number.

        >>> import numpy as np, fgrad as fg
        >>> fg.grad(lambda x: x * x)(np.array([1.0, 2.0]))
        Traceback (most recent call last):
        fgrad.errors.NonScalarError: ...

    Reduce it to one number, or use `gradients_function`, which sums:

        >>> fg.grad(lambda x: np.sum(x * x))(np.array([1.0, 2.0]))
        Tensor([2., 4.])
        >>> fg.gradients_function(lambda x: x * x)(np.array([1.0, 2.0]))
        [Tensor([2., 4.])]
    """


class IntegerInputError(FgradError, TypeError):
    """An argument to differentiate is an integer or a boolean.

        >>> import fgrad as fg
        >>> fg.grad(lambda x: x * x)(3)
        Traceback (most recent call last):
        fgrad.errors.IntegerInputError: ...

    Pass floating-point numbers:

        >>> fg.grad(lambda x: x * x)(3.0)
        Tensor(6.)
    """


class NonNumericInputError(FgradError, TypeError):
    """An argument to differentiate is not a number or a container of numbers: a string, None, or another object.

        >>> import dataclasses, fgrad as fg
        >>> @dataclasses.dataclass
        ... class Spring:
        ...     stiffness: float
        ...     label: str
        >>> fg.grad(lambda s: s.stiffness**2)(Spring(3.0, "left"))
        Traceback (most recent call last):
        fgrad.errors.NonNumericInputError: ...

    Register a dataclass as a container of its fields, some of which may be non-numeric:

        >>> _ = fg.register_dataclass(Spring, static=["label"])
        >>> fg.grad(lambda s: s.stiffness**2)(Spring(3.0, "left")).stiffness
        Tensor(6.)
    """


class SeedError(FgradError, ValueError):
    """Weights of the result (`dy`, `output_gradients`, a cotangent) do not match the result.

        >>> import numpy as np, fgrad as fg
        >>> square = fg.gradients_function(lambda x: x * x)
        >>> square(np.array([1.0, 2.0]), dy=np.array([1.0, 1.0, 1.0]))
        Traceback (most recent call last):
        fgrad.errors.SeedError: ...

    Pass one weight per element of the result, or one for all:

        >>> square(np.array([1.0, 2.0]), dy=np.array([1.0, 10.0]))
        [Tensor([ 2., 40.])]
        >>> square(np.array([1.0, 2.0]), dy=10.0)
        [Tensor([20., 40.])]
    """


class TangentError(FgradError, ValueError):
    """The tangents of `jvp` do not match its primals.

        >>> import fgrad as fg
        >>> fg.jvp(lambda x, y: x * y, (2.0, 3.0), (1.0,))
        Traceback (most recent call last):
        fgrad.errors.TangentError: ...

    Pass a direction for every primal; zero for a constant one:

        >>> fg.jvp(lambda x, y: x * y, (2.0, 3.0), (1.0, 0.0))
        (Tensor(6.), Tensor(3.))
    """


class NoVariablesError(FgradError, ValueError):
    """Gradients of variables were requested for a function that reads no trainable variable.

        >>> import fgrad as fg
        >>> fg.implicit_gradients(lambda x: x * x)(3.0)
        Traceback (most recent call last):
        fgrad.errors.NoVariablesError: ...

    Read a variable, or differentiate with respect to the arguments:

        >>> w = fg.Variable(2.0, name="w")
        >>> fg.implicit_gradients(lambda x: w * x)(3.0)
        [(Tensor(3.), Variable(2., name='w'))]
        >>> fg.gradients_function(lambda x: x * x)(3.0)
        [Tensor(6.)]
    """


class ShapeError(FgradError, ValueError):
    """A value to assign, or a gradient to apply, does not have the shape of the variable.

        >>> import fgrad as fg
        >>> w = fg.Variable([1.0, 2.0], name="w")
        >>> w.assign([1.0, 2.0, 3.0])
        Traceback (most recent call last):
        fgrad.errors.ShapeError: ...

    The variable is unchanged. Shapes must be equal:

        >>> w.assign([3.0, 4.0])
        Variable([3., 4.], name='w')
    """


class DtypeError(FgradError, TypeError):
    """A value to be stored would lose its fraction or its imaginary part.

        >>> import fgrad as fg
        >>> fg.Variable(1, name="count").assign(1.5)
        Traceback (most recent call last):
        fgrad.errors.DtypeError: ...

    Store it in a variable or tensor with a suitable dtype:

        >>> fg.Variable(1.0, name="count").assign(1.5)
        Variable(1.5, name='count')
    """


class NoGradientWarning(UserWarning):
    """A gradient is None for a reason that is easily overlooked, such as an integer argument.

    >>> import warnings, fgrad as fg
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     fg.gradients_function(lambda x: x * x)(3)
    [None]
    >>> caught[0].category.__name__
    'NoGradientWarning'
    """


class CompileWarning(UserWarning):
    """A function is compiled repeatedly, because the shapes or dtypes of its arguments keep changing.

    >>> import warnings, numpy as np, fgrad as fg
    >>> total = fg.compile(lambda x: np.sum(x))
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     for n in range(8):
    ...         _ = total(np.ones(n))  # of another shape each time
    >>> caught[0].category.__name__
    'CompileWarning'
    """


class MovingStepWarning(NoGradientWarning):
    """An integrand is discontinuous at a point that moves with a differentiated parameter.

    The derivative lacks the contribution of the moving discontinuity, here `-threshold`:

        >>> import warnings, numpy as np, fgrad as fg
        >>> from fgrad.scipy.integrate import quad
        >>> def above(threshold):
        ...     return quad(lambda x: np.where(x > threshold, x, 0.0), 0.0, 1.0)[0]
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     fg.grad(above)(0.5)
        Tensor(0.)
        >>> caught[0].category.__name__
        'MovingStepWarning'

    Pass the point to the integrator, or split the interval there. A differential equation is split by an event that
    terminates the solution:

        >>> def above(threshold):
        ...     return quad(lambda x: np.where(x > threshold, x, 0.0), 0.0, 1.0, points=[threshold])[0]
        >>> fg.grad(above)(0.5)
        Tensor(-0.5)

    If the point is meant to be fixed, write `x > fg.stop_gradient(threshold)`.
    """


class WeaklyActiveWarning(UserWarning):
    """A minimum lies on a constraint with multiplier zero (weakly active), and is differentiated there.

    On one side the minimum then moves away from the constraint, and on the other it stays on it. One of the two
    one-sided derivatives is returned:

        >>> import warnings, numpy as np, fgrad as fg
        >>> from fgrad.scipy.optimize import minimize
        >>> def nearest(c):
        ...     above = {"type": "ineq", "fun": lambda x: x[0]}
        ...     return minimize(lambda x: np.sum((x - c) ** 2), [1.0], constraints=above).x[0]
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     _ = fg.grad(nearest)(0.0)            # between 0 and 1
        >>> caught[0].category.__name__
        'WeaklyActiveWarning'

    On either side of the point the derivative is unique:

        >>> fg.grad(nearest)(1.0), fg.grad(nearest)(-1.0) + 0.0
        (Tensor(1.), Tensor(0.))
    """


class StructureError(FgradError, TypeError):
    """A container was expected to have another structure, such as a list in place of an array.

    >>> import numpy as np, fgrad as fg
    >>> fg.global_norm(np.array([3.0, 4.0]))
    Traceback (most recent call last):
    fgrad.errors.StructureError: ...

    >>> fg.global_norm([np.array([3.0, 4.0])])
    Tensor(5.)
    """


class TapeError(FgradError, RuntimeError):
    """A tape cannot compute the requested gradients, or no longer can.

        >>> import fgrad as fg
        >>> x = fg.constant(3.0)
        >>> with fg.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = x * x
        >>> tape.gradient(y, x)
        Tensor(6.)
        >>> tape.gradient(y, x)
        Traceback (most recent call last):
        fgrad.errors.TapeError: ...

    Make it persistent to compute several gradients:

        >>> with fg.GradientTape(persistent=True) as tape:
        ...     tape.watch(x)
        ...     y = x * x
        ...     z = y * y
        >>> tape.gradient(y, x), tape.gradient(z, x)
        (Tensor(6.), Tensor(108.))
    """


class TapeStateError(FgradError, ValueError):
    """A tape was opened while it was open, or stopped while it was not recording.

        >>> import fgrad as fg
        >>> with fg.GradientTape() as tape:
        ...     with tape:
        ...         pass
        Traceback (most recent call last):
        fgrad.errors.TapeStateError: ...

    Nest two tapes for a second derivative:

        >>> x = fg.constant(3.0)
        >>> with fg.GradientTape() as outer:
        ...     outer.watch(x)
        ...     with fg.GradientTape() as inner:
        ...         inner.watch(x)
        ...         y = x * x * x
        ...     slope = inner.gradient(y, x)
        >>> outer.gradient(slope, x)
        Tensor(18.)
    """


class WatchError(FgradError, ValueError):
    """An object that is not a tensor or variable was watched, or a watched tensor was written to.

        >>> import fgrad as fg
        >>> with fg.GradientTape() as tape:
        ...     tape.watch(3.0)
        Traceback (most recent call last):
        fgrad.errors.WatchError: ...

    Make it a tensor first, and compute with that:

        >>> x = fg.constant(3.0)
        >>> with fg.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = x * x
        >>> tape.gradient(y, x)
        Tensor(6.)

    Write into a copy of a tensor whose gradient is needed later, or compute the gradient before the write:

        >>> x = fg.constant([3.0, 4.0])
        >>> with fg.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = x * x
        ...     x[0] = 0.0
        >>> tape.gradient(y, x)
        Traceback (most recent call last):
        fgrad.errors.WatchError: ...
    """


class SourceError(FgradError, TypeError):
    """A target or source of a tape is not a tensor or variable.

        >>> import fgrad as fg
        >>> w = fg.Variable(3.0)
        >>> with fg.GradientTape() as tape:
        ...     y = w * w
        >>> tape.gradient(y, 3.0)
        Traceback (most recent call last):
        fgrad.errors.SourceError: ...

    Pass the variable, or the tensor that was watched:

        >>> with fg.GradientTape() as tape:
        ...     y = w * w
        >>> tape.gradient(y, w)
        Tensor(6.)
    """


class NoGradientsError(FgradError, ValueError):
    """An optimizer got no gradients to apply: no pairs, or only gradients that are None.

        >>> import fgrad as fg
        >>> w = fg.Variable(3.0, name="w")
        >>> optimizer = fg.optimizers.GradientDescent(0.1)
        >>> optimizer.minimize(lambda: fg.stop_gradient(w) * 2.0)
        Traceback (most recent call last):
        fgrad.errors.NoGradientsError: ...

    Make the loss depend on a variable:

        >>> optimizer.minimize(lambda: w * w)
        >>> w
        Variable(2.4, name='w')
    """


class StateError(FgradError, ValueError):
    """A saved or initial state, or a container of gradients, does not match an optimizer and its parameters.

        >>> import fgrad as fg
        >>> w = fg.Variable(3.0, name="w")
        >>> optimizer = fg.optimizers.Momentum(0.1, momentum=0.9)
        >>> optimizer.minimize(lambda: w * w)
        >>> fg.optimizers.Adam().load_state_dict(optimizer.state_dict())
        Traceback (most recent call last):
        fgrad.errors.StateError: ...

    Load state into an optimizer of the same class, with variables of the same names and shapes:

        >>> again = fg.optimizers.Momentum(0.1, momentum=0.9)
        >>> again.load_state_dict(optimizer.state_dict())
        >>> again.iterations
        1
    """


class SaveError(FgradError, TypeError):
    """A value cannot be saved to a file: a traced tensor, or an object of an unsupported class.

        >>> import fgrad as fg
        >>> fg.save("model.safetensors", {"rate": lambda step: 0.1})
        Traceback (most recent call last):
        fgrad.errors.SaveError: ...

    Containers of arrays, tensors, variables, numbers and strings can be saved:

        >>> import tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
        >>> fg.save(path, {"rate": 0.1})
        >>> fg.load(path)
        {'rate': 0.1}
    """


class LoadError(FgradError, ValueError):
    """A file is damaged, was not written by `fgrad.save`, or holds another structure than expected.

    >>> import tempfile, os
    >>> import fgrad as fg
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> fg.save(path, {"w": 1.0})
    >>> fg.load(path, like={"w": 0.0, "b": 0.0})
    Traceback (most recent call last):
    fgrad.errors.LoadError: ...

    >>> fg.load(path, like={"w": 0.0})
    {'w': 1.0}
    """


class MissingExtraError(FgradError, ImportError):
    """A feature needs an optional library that is not installed.

    The message names the library and how to install it, such as `pip install safetensors`.

        >>> from unittest import mock
        >>> import fgrad as fg
        >>> with mock.patch.dict("sys.modules", {"safetensors": None}):  # as if it were not installed
        ...     fg.save("model.safetensors", {"w": 1.0})
        Traceback (most recent call last):
        fgrad.errors.MissingExtraError: ...
    """


class NotLoweredError(FgradError, NotImplementedError):
    """A program for JAX has an operation for which JAX has no counterpart.

    The message names the operations and their lines. Use other operations, or compile without `backend="jax"`.

        >>> import numpy as np, scipy.special, fgrad as fg
        >>> fg.to_jax(lambda x: scipy.special.airy(x)[0])(np.ones(3))
        Traceback (most recent call last):
        fgrad.errors.NotLoweredError: ...

    `docs/how-to/accelerators.md` lists the operations without a counterpart.

        >>> fg.to_jax(lambda x: scipy.special.erf(x))  # doctest: +ELLIPSIS
        <...>
    """


class GradientCheckError(FgradError, AssertionError):
    """A derivative differs from finite differences: a rule is wrong, or the point is near a kink.

    >>> import numpy as np
    >>> from fgrad.testing import check_grads
    >>> check_grads(np.abs, (np.array([1e-5]),))
    Traceback (most recent call last):
    fgrad.errors.GradientCheckError: ...

    >>> check_grads(np.abs, (np.array([0.5]),))
    """


class NonFiniteError(FgradError, FloatingPointError):
    """Inside `debug_nans`, an operation or its derivative rule gave a value that is not finite.

        >>> import numpy as np, fgrad as fg
        >>> with fg.debug_nans():
        ...     fg.grad(lambda x: np.sqrt(x) + x)(0.0)
        Traceback (most recent call last):
        fgrad.errors.NonFiniteError: ...

    The message names the line and the values. Select another branch where the function has no derivative; a branch that
    is not selected contributes exactly 0:

        >>> with fg.debug_nans():
        ...     fg.grad(lambda x: np.where(x > 0, np.sqrt(x), 0.0) + x)(0.0)
        Tensor(1.)
    """


class ConcretizationError(FgradError, TypeError):
    """A value was requested that does not exist: in `vmap` a tensor stands for a whole batch.

        >>> import numpy as np, fgrad as fg
        >>> def relu(x):
        ...     return x if x > 0 else 0.0 * x
        >>> fg.vmap(relu)(np.array([-1.0, 2.0]))
        Traceback (most recent call last):
        fgrad.errors.ConcretizationError: ...

    Compute all cases and select with `np.where`:

        >>> fg.vmap(lambda x: np.where(x > 0, x, 0.0))(np.array([-1.0, 2.0]))
        Tensor([0., 2.])
    """

    def __init__(self, how: str, line: str, remedy: str = "") -> None:
        super().__init__(
            f"{how} needs a value, and under this transform a tensor stands for many values at once.\n  at {line}\n"
            + _VALUE_REMEDIES.get(how, _CHOOSE)
            + (f"\n{remedy}" if remedy else "")
        )


_CHOOSE = (
    "if x > 0: a, else: b  becomes np.where(x > 0, a, b); `and`, `or`, `not` become &, |, ~; max(x, y) becomes "
    "np.maximum(x, y).\nTo choose between two functions, use fg.cond(x > 0, f, g, x); for a loop, fg.while_loop."
)
_OF_OPEN_SHAPE = (
    "argwhere", "compress", "extract", "flatnonzero", "intersect1d", "nonzero", "setdiff1d", "setxor1d", "trim_zeros",
    "unique", "unique_all", "unique_counts", "unique_inverse", "unique_values",
)  # fmt: skip
_SHAPES = (
    "The shape of a result cannot depend on values: np.nonzero(x) becomes the mask x != 0, and np.sum(x[mask]) works."
)
_AS_IT_IS = (
    "NumPy's functions accept tensors: write np.sin(x) for math.sin(x), x for float(x), x.item(), x.numpy(); "
    f"and\n{_CHOOSE}"
)
_VALUE_REMEDIES = {
    "float()": _AS_IT_IS,
    "int()": _AS_IT_IS,
    ".item()": _AS_IT_IS,
    ".numpy()": _AS_IT_IS,
    "formatting": 'Omit the format: print(x), f"{x}" and "%s" % x show the values of the whole batch.',
    "np.asarray or np.array": "omit np.asarray(x); np.array([x, y]) becomes np.stack([x, y]), and a[i] with a "
    "plain array `a` becomes fg.constant(a)[i]; for result[i] = x create `result` with fgrad.numpy.zeros;\n" + _CHOOSE,
    "indexing with a mask": "The shape of a result cannot depend on values. Elementwise functions of x[mask], their "
    "sums and means, maxima with `initial`, and x[mask] = f(x[mask]) work, and np.count_nonzero(mask) is their number; "
    "otherwise x[mask] becomes np.where(mask, x, 0.0).",
    "combining elements of two masks": "Their numbers could differ. Write one mask: m = x > 0; x[m] = f(y[m]).",
    **dict.fromkeys((f"np.{name}" for name in _OF_OPEN_SHAPE), _SHAPES),
    "use as an index": "a[i] with a list becomes fg.constant(a)[i]; the number of iterations of a loop must be the "
    "same for all examples.",
    "the condition of while_loop": "Iterations that assign to variables or draw random numbers are recorded one by "
    "one. Give the maximal number of iterations: fg.while_loop(cond, body, init, max_steps=100). Or make the changing "
    "state part of the value, and return it.",
    "a backward pass through a loop, for the number of iterations,": "Give the maximal number of iterations: "
    "fg.while_loop(cond, body, init, max_steps=100).",
    "a bound of fori_loop": "Pass the bounds as plain integers; if they must be computed, give the maximal number "
    "of iterations:\nfg.while_loop(lambda c: c[0] < upper, lambda c: (c[0] + 1, body(*c)), (lower, init), "
    "max_steps=100).",
    "an adaptive solver": "Call the solver outside of the transform; the function passed to it may use compile or "
    "vmap.",
    "storing it in a variable": "Return the value from the function, and assign the result. Avoid a variable that the "
    "function, or its rule, creates: y in place of fg.Variable(y), and y = y + 1 in place of "
    "y.assign_add(1).",
}
"""Hints, by the kind of request."""


class LeakedTensorError(FgradError, RuntimeError):
    """A tensor is used after the end of the transform it belongs to: of a `vmap`, or of a recording.

        >>> import numpy as np, fgrad as fg
        >>> kept = []
        >>> squares = fg.vmap(lambda x: kept.append(x * x) or x)(np.array([1.0, 2.0]))
        >>> kept[0] + 1
        Traceback (most recent call last):
        fgrad.errors.LeakedTensorError: ...

    Return it from the function, together with its other results:

        >>> squares, x = fg.vmap(lambda x: (x * x, x))(np.array([1.0, 2.0]))
        >>> squares + 1
        Tensor([2., 5.])
    """

    def __init__(self, owner: str, line: str) -> None:
        super().__init__(
            f"this tensor belongs to {owner} that has ended, and has no value outside of it.\n  at {line}\n"
            "Return it from the function, and use the result."
        )


class AxisError(FgradError, ValueError):
    """The axes of `vmap` do not match its arguments or results.

        >>> import numpy as np, fgrad as fg
        >>> def shifted(x, shift):
        ...     return x + shift
        >>> fg.vmap(shifted)(np.ones((3, 2)), np.ones((4, 2)))
        Traceback (most recent call last):
        fgrad.errors.AxisError: ...

    Mapped axes have the same size; an argument that is the same for all examples has the axis None:

        >>> fg.vmap(shifted, in_axes=(0, None))(np.ones((3, 2)), np.ones(2)).shape
        (3, 2)
    """


class LoopWarning(UserWarning):
    """`vmap` runs an operation in a loop, because it has no batching rule; the result is correct, but slow.

        >>> import warnings, numpy as np, fgrad as fg
        >>> from fgrad.extend import defbatch, register_primitive
        >>> doubled = register_primitive(lambda x: 2 * x, name="example_doubled")
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     _ = fg.vmap(doubled)(np.ones(3))
        >>> caught[0].category.__name__
        'LoopWarning'

    Give it a batching rule:

        >>> defbatch(doubled, lambda values, mapped, size, metadata: 2 * values[0])
        >>> fg.vmap(doubled)(np.ones(3))
        Tensor([2., 2., 2.])
    """


class SharedDrawsWarning(UserWarning):
    """A function under `vmap` has drawn from `np.random`: it runs once, so all examples have the same numbers.

    >>> import warnings, numpy as np, fgrad as fg
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     noisy = fg.vmap(lambda x: x + np.random.uniform())(np.zeros(3))
    >>> caught[0].category.__name__, bool(noisy[0] == noisy[1])
    ('SharedDrawsWarning', True)

    Draw separately for each example:

    >>> rng = fg.random.default_rng(0)
    >>> noisy = fg.vmap(lambda x: x + rng.normal())(np.zeros(3))
    >>> bool(noisy[0] == noisy[1])
    False
    """


class CloseValuesWarning(UserWarning):
    """Eigenvalues or singular values are so close that the derivative with respect to vectors is inaccurate.

    The derivative has differences of terms of two vectors, divided by the difference of their values. If the loss does
    not distinguish the vectors, as in `(v * f(w)) @ v.T`, both differences are rounding errors:

        >>> import warnings, numpy as np, fgrad as fg
        >>> def expm(a):
        ...     w, v = np.linalg.eigh(a)
        ...     return (v * np.exp(w)) @ v.T
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     _ = fg.grad(lambda a: np.sum(expm(a)))(np.diag([1.0, 1.0 + 1e-12]))
        >>> caught[0].category.__name__
        'CloseValuesWarning'

    `fgrad.scipy.linalg.expm`, `funm` and related functions avoid such differences:

        >>> import fgrad.scipy.linalg
        >>> a = np.diag([1.0, 1.0 + 1e-12])
        >>> fg.grad(lambda a: np.sum(fgrad.scipy.linalg.expm(a)))(a).round(6)
        Tensor([[2.718282, 2.718282],
                [2.718282, 2.718282]])
    """


class StateWarning(UserWarning):
    """Loaded state was assigned by position to variables without names.

    >>> import warnings, fgrad as fg
    >>> optimizer = fg.optimizers.Momentum(0.1, momentum=0.9)
    >>> optimizer.load_state_dict({"step": 1, "slots": {"Variable_0": {"momentum": 2.0}}})
    >>> w = fg.Variable(2.8)  # by now the name has another number
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     optimizer.apply_gradients([(2.0, w)])
    >>> caught[0].category.__name__
    'StateWarning'

    With names, the assignment is unambiguous:

    >>> w = fg.Variable(2.8, name="w")
    """


class NonFiniteGradientWarning(UserWarning):
    """A gradient that holds an infinity or a NaN reached a step of an optimizer.

    The step makes the variable NaN, and the optimizer's state for it:

    >>> import warnings, fgrad as fg
    >>> w = fg.Variable(0.0, name="w")
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     fg.optimizers.GradientDescent(0.1).apply_gradients([(float("inf"), w)])
    >>> caught[0].category.__name__
    'NonFiniteGradientWarning'

    `skip_nonfinite=True` skips such steps, and `fgrad.debug_nans` names the operation that produced the first such
    value:

    >>> w = fg.Variable(0.0, name="w")
    >>> fg.optimizers.GradientDescent(0.1, skip_nonfinite=True).apply_gradients([(float("inf"), w)])
    >>> w
    Variable(0., name='w')
    """


class ZeroTimesInfinityWarning(UserWarning):
    """A Jacobian has zeros where a slope of 0 has met an infinite one, as in `np.exp(np.log(x))` at 0.

    A Jacobian is computed along unit vectors, whose zeros mean "not used" and win over infinities. A zero that comes
    from a slope cannot be distinguished from these:

        >>> import warnings, numpy as np, fgrad as fg
        >>> with warnings.catch_warnings(record=True) as caught, np.errstate(all="ignore"):
        ...     warnings.simplefilter("always")
        ...     _ = fg.jacrev(lambda x: np.exp(np.log(x)))(np.zeros(2))
        >>> caught[0].category.__name__
        'ZeroTimesInfinityWarning'

    Along a single direction without zeros there is no such ambiguity:

        >>> with np.errstate(all="ignore"):
        ...     fg.grad(lambda x: np.sum(np.exp(np.log(x))))(np.array([0.0, 0.0, 2.0]))
        Tensor([nan, nan,  1.])
    """


class ReplacedPrimitiveWarning(UserWarning):
    """An operation is registered under the name of an earlier one, as by a notebook cell that runs again.

        >>> import warnings, fgrad as fg
        >>> from fgrad.extend import defvjp, register_primitive
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     for _ in range(2):
        ...         halved = register_primitive(lambda x: x / 2, name="example_halved")
        >>> caught[0].category.__name__
        'ReplacedPrimitiveWarning'

    The new one has no rules before they are defined, below it:

        >>> defvjp(halved, lambda ct: ct / 2)
        >>> fg.grad(halved)(3.0)
        Tensor(0.5)
    """


class UnusedRuleWarning(UserWarning):
    """A rule in Autograd's form is given for a function that is no primitive, and is not used, as in Autograd.

    The derivative is that of the function's code:

        >>> import warnings
        >>> from fgrad.compat.autograd import grad
        >>> from fgrad.compat.autograd.extend import defvjp, primitive
        >>> def halved(x):
        ...     return x / 2
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     defvjp(halved, lambda ans, x: lambda g: 100 * g)
        >>> caught[0].category.__name__
        'UnusedRuleWarning'
        >>> grad(halved)(3.0)
        np.float64(0.5)

    A rule belongs to what `primitive` returns:

        >>> own = primitive(halved)
        >>> defvjp(own, lambda ans, x: lambda g: g / 2)
        >>> grad(own)(3.0)
        np.float64(0.5)
    """


class BasisWarning(UserWarning):
    """Vectors of a repeated value lie along axes, where a basis-dependent loss may go undetected.

    The vectors of a repeated eigenvalue are one of many bases. At `v = [1, 0]` the slope of `v**4` equals that of `2 *
    v**2`, but the sum of the latter over all vectors is constant:

        >>> import warnings, numpy as np, fgrad as fg
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     _ = fg.grad(lambda a: np.sum(np.linalg.eigh(a)[1] ** 4))(np.eye(2))
        >>> caught[0].category.__name__
        'BasisWarning'
    """


class CustomRuleError(FgradError, ValueError):
    """A user's rule does not match its function.

        >>> import fgrad as fg
        >>> @fg.custom_gradient
        ... def product(x, y):
        ...     return x * y, lambda dy: dy * y
        >>> fg.grad(product)(2.0, 3.0)
        Traceback (most recent call last):
        fgrad.errors.CustomRuleError: ...

    Return one derivative per argument:

        >>> @fg.custom_gradient
        ... def product(x, y):
        ...     return x * y, lambda dy: (dy * y, dy * x)
        >>> fg.grad(product)(2.0, 3.0)
        Tensor(3.)
    """


class ClosureError(FgradError, TypeError):
    """A function with a custom rule uses a traced value for which the rule has no derivative.

        >>> import fgrad as fg
        >>> def loss(w, x):
        ...     @fg.custom_gradient
        ...     def scaled(x):
        ...         return w * x, lambda dy: dy * w
        ...     return scaled(w * x)
        >>> fg.grad(loss)(2.0, 3.0)
        Traceback (most recent call last):
        fgrad.errors.ClosureError: ...

    Make it an argument:

        >>> @fg.custom_gradient
        ... def scaled(w, x):
        ...     return w * x, lambda dy: (dy * x, dy * w)
        >>> fg.grad(lambda w, x: scaled(w, w * x))(2.0, 3.0)
        Tensor(12.)
    """


class GraphInputError(FgradError, ValueError):
    """A graph was run with arguments whose structure, shape or dtype differs from the recorded ones.

        >>> import numpy as np, fgrad as fg
        >>> import fgrad as fg; trace = fg.trace
        >>> graph = trace(np.sum)(np.ones(3))
        >>> graph(np.ones(4))
        Traceback (most recent call last):
        fgrad.errors.GraphInputError: ...

    A graph is valid for all values of the same shapes; record another one for other shapes:

        >>> graph(np.array([1.0, 2.0, 3.0]))
        Tensor(6.)
        >>> trace(np.sum)(np.ones(4))(np.ones(4))
        Tensor(4.)
    """


class IntegerRangeError(FgradError, OverflowError):
    """A compiled function computes an integer of more than 64 bits from Python integers.

        >>> import fgrad as fg
        >>> power = fg.compile(lambda n: n * n)
        >>> power(3)
        Tensor(9)
        >>> power(2**40)
        Traceback (most recent call last):
        fgrad.errors.IntegerRangeError: ...

    In a static argument Python computes it, and a float can hold it:

        >>> power(2.0**40).item()
        1.2089258196146292e+24
    """


class FrozenValueError(FgradError, RuntimeError):
    """A function under `compile` uses a value that changes between calls and is not one of its arguments.

        >>> import numpy as np, fgrad as fg
        >>> rng = np.random.default_rng(0)
        >>> noisy = fg.compile(lambda x: x + rng.normal())
        >>> noisy(np.ones(3))
        Traceback (most recent call last):
        fgrad.errors.FrozenValueError: ...

    A compiled program would keep using the first value. Pass it as an argument:

        >>> sum_of = fg.compile(lambda x, noise: x + noise)
        >>> sum_of(np.ones(2), 0.5)
        Tensor([1.5, 1.5])
    """


class RecordedAssignmentError(FgradError, RuntimeError):
    """A variable was assigned while the function that reads it was being recorded.

        >>> import fgrad as fg
        >>> import fgrad as fg; trace = fg.trace
        >>> w = fg.Variable(3.0, name="w")
        >>> def step(x):
        ...     w.assign_sub(0.1 * w.numpy())
        ...     return w * x
        >>> trace(lambda x: (w * x, step(x)))(2.0)
        Traceback (most recent call last):
        fgrad.errors.RecordedAssignmentError: ...

    Return the new value, and assign the result of the graph:

        >>> graph = trace(lambda x: w - 0.1 * w * x)(1.0)
        >>> w.assign(2.0).assign(graph(1.0))
        Variable(1.8, name='w')
    """


class SymbolicTensorError(FgradError, TypeError):
    """Python requested a value from a tensor of a graph; only a session has one.

        >>> import fgrad.compat.tensorflow1 as tf
        >>> x = tf.placeholder(tf.float32)
        >>> y = x if x > 0 else -x
        Traceback (most recent call last):
        fgrad.errors.SymbolicTensorError: ...

    Let the graph choose, or run the tensor and use the value:

        >>> y = tf.where(x > 0, x, -x)
        >>> with tf.Session() as session:
        ...     session.run(y, feed_dict={x: -3.0})
        np.float32(3.0)
    """


class SymbolicArrayError(FgradError, NotImplementedError):
    """NumPy was called with a tensor of a graph, which has no value yet.

        >>> import numpy as np, fgrad.compat.tensorflow1 as tf
        >>> x = tf.constant(0.0)
        >>> np.sin(x)
        Traceback (most recent call last):
        fgrad.errors.SymbolicArrayError: ...

    Use the functions of the namespace, which can be deferred; or leave graph mode, where NumPy's functions work:

        >>> with tf.Session() as session:
        ...     session.run(tf.sin(x))
        np.float32(0.0)
    """


class FetchError(FgradError, TypeError, ValueError):
    """A fetched or fed object is not an element of the session's graph, or an operation mixes graphs.

        >>> import fgrad.compat.tensorflow1 as tf
        >>> tf.Session().run(3.0)
        Traceback (most recent call last):
        fgrad.errors.FetchError: ...

    Fetch tensors, variables, operations or their names, of the graph that the session was made for:

        >>> with tf.Graph().as_default() as graph:
        ...     x = tf.constant(3.0)
        >>> tf.Session(graph=graph).run(x)
        np.float32(3.0)
    """


class SessionError(FgradError, RuntimeError, ValueError):
    """A session is closed, or none is open where one is needed.

        >>> import fgrad.compat.tensorflow1 as tf
        >>> x = tf.constant(3.0)
        >>> x.eval()
        Traceback (most recent call last):
        fgrad.errors.SessionError: ...

    Work inside its block, or pass it explicitly:

        >>> with tf.Session():
        ...     x.eval()
        np.float32(3.0)
        >>> x.eval(session=tf.Session())
        np.float32(3.0)
    """


class InvalidArgumentError(FgradError, ValueError):
    """A placeholder was not fed, or fed with an incompatible value.

        >>> import fgrad.compat.tensorflow1 as tf
        >>> x = tf.placeholder(tf.float32, shape=[2], name="x")
        >>> tf.Session().run(x * 2.0)
        Traceback (most recent call last):
        fgrad.errors.InvalidArgumentError: ...

    Feed every placeholder that the fetches need, in its shape; None in a shape allows any size:

        >>> tf.Session().run(x * 2.0, feed_dict={x: [1.0, 2.0]})
        array([2., 4.], dtype=float32)
    """


class FailedPreconditionError(FgradError, RuntimeError):
    """A variable of a graph was used in a session in which it has no value yet.

        >>> import fgrad.compat.tensorflow1 as tf
        >>> w = tf.Variable(3.0)
        >>> session = tf.Session()
        >>> session.run(w)
        Traceback (most recent call last):
        fgrad.errors.FailedPreconditionError: ...

    Every session initializes variables separately:

        >>> session.run(tf.global_variables_initializer())
        >>> session.run(w)
        np.float32(3.0)
    """


class MissingNameError(FgradError, AttributeError):
    """A name does not exist in fgrad, a tensor or an optimizer; it may be a name of another library.

        >>> import fgrad as fg
        >>> fg.constant(3.0).detach()
        Traceback (most recent call last):
        fgrad.errors.MissingNameError: ...

        >>> import fgrad.compat.tensorflow as tf
        >>> tf.keras
        Traceback (most recent call last):
        fgrad.errors.MissingNameError: ...

    The message gives the equivalent in fgrad; a model is a function of variables, for instance:

        >>> fg.stop_gradient(fg.constant(3.0))
        Tensor(3.)

        >>> w = tf.Variable([[1.0], [2.0]])
        >>> def dense(x):
        ...     return tf.nn.relu(tf.matmul(x, w))
    """


class KeywordError(FgradError, TypeError):
    """A function or class was called with an unknown keyword, such as one of another library, or too many arguments.

        >>> import fgrad as fg
        >>> fg.optimizers.Adam(lr=0.1)
        Traceback (most recent call last):
        fgrad.errors.KeywordError: ...

        >>> fg.grad(lambda x, y: x * y, argnum=1)
        Traceback (most recent call last):
        fgrad.errors.KeywordError: ...

    The message gives the keyword's name in fgrad or what to write instead, and the list of keywords:

        >>> optimizer = fg.optimizers.Adam(learning_rate=0.1)

        >>> fg.grad(lambda x, y: x * y, argnums=1)(2.0, 3.0)
        Tensor(2.)
    """


class VariableScopeError(FgradError, ValueError):
    """A variable was requested by a name that is taken, or that does not exist.

        >>> import fgrad.compat.tensorflow1 as tf
        >>> with tf.Graph().as_default():
        ...     w = tf.get_variable("w", shape=[2])
        ...     again = tf.get_variable("w", shape=[2])
        Traceback (most recent call last):
        fgrad.errors.VariableScopeError: ...

    Allow the reuse of variables in a scope:

        >>> with tf.Graph().as_default():
        ...     with tf.variable_scope("layer", reuse=tf.AUTO_REUSE):
        ...         w = tf.get_variable("w", shape=[2])
        ...         tf.get_variable("w") is w
        True
    """


class UpdateError(FgradError, NotImplementedError):
    """Gradients were applied to a tensor of a graph, which is not a variable.

        >>> import fgrad.compat.tensorflow1 as tf
        >>> x = tf.constant(3.0)
        >>> optimizer = tf.train.GradientDescentOptimizer(0.1)
        >>> optimizer.minimize(x * x, var_list=[x])
        Traceback (most recent call last):
        fgrad.errors.UpdateError: ...

    Make it a variable:

        >>> x = tf.Variable(3.0)
        >>> step = optimizer.minimize(x * x, var_list=[x])
        >>> with tf.Session() as session:
        ...     session.run(tf.global_variables_initializer())
        ...     session.run(step)
        ...     session.run(x)
        np.float32(2.4)
    """


_name_users_line()
