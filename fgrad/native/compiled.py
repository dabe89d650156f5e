"""`fgrad.compile`: a function is recorded once for each form of its arguments, and runs as native code."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, overload

import numpy as np

from fgrad import errors
from fgrad.core.tensor import boxed, strip_ended
from fgrad.core.trace import is_seen, running
from fgrad.core.tree import flatten, tree_map
from fgrad.core.variable import recording
from fgrad.core.views import mark_as_array
from fgrad.errors.hints import names_keywords
from fgrad.errors.places import depth_of_user
from fgrad.graphs.graph import frozen
from fgrad.native.artifacts import ExportedFiles, Target
from fgrad.native.cache import cache_folder
from fgrad.native.forms import Form
from fgrad.native.layouts import form_of, layout_of
from fgrad.native.options import ENGINES, Options
from fgrad.native.program import Program, overwrite, result_of
from fgrad.native.programs import Programs
from fgrad.native.reports import Inspection
from fgrad.native.static_arguments import OfInstances
from fgrad.rules.closures import followers
from fgrad.transforms.calls import Transformed, name_of
from fgrad.transforms.running import call_users, is_number

P = ParamSpec("P")
R = TypeVar("R")


class Compiled(Transformed, Generic[P, R]):
    """The function that `compile` returns; it computes the results of the original function by native code.

    Args:
        function: the user's function.
        options: the options of `compile`.
        programs: existing programs, for a bound method.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> total = fg.compile(lambda x, y: np.sum(x * y))
        >>> total(np.array([1.0, 2.0]), 3.0)
        Tensor(9.)
        >>> print(total.inspect(np.array([1.0, 2.0]), 3.0).stages[0].operations)
        {'multiply': 1, 'sum': 1}
    """

    def __init__(self, function: Callable[P, R], options: dict[str, Any], programs: Programs | None = None) -> None:
        self._programs = Programs(**options) if programs is None else programs
        super().__init__(_run_compile, function, {"programs": self._programs})
        self._given = options
        self._of_instances = OfInstances(lambda: Programs(**options))

    def __call__(self, *args: P.args, **keywords: P.kwargs) -> R:
        if not running.watches and running.call is None:  # fast path for the common case
            leaves: Sequence[Any] = args
            program = None if keywords else self._programs.known.get(tuple([form_of(x) for x in args]))
            if program is None:
                layout, leaves = layout_of(args, keywords)
                program = self._programs.by_layout.get(layout)
            if program is not None and not is_seen() and program.is_current():
                return program.run(leaves)  # type: ignore[no-any-return]
        return super().__call__(*args, **keywords)  # type: ignore[no-any-return]

    @property
    def programs(self) -> Programs:
        """The programs compiled so far, for callers that run them without this function's transforms."""
        return self._programs

    def inspect(self, *args: object, measure: bool = False, **keywords: object) -> Inspection:
        """Return a report on the program for these arguments, which is compiled if necessary.

        Args:
            args, keywords: arguments of the function.
            measure: time each stage for these arguments, by running all of them ten times or more, and a call of the
                compiled function and of the original function, unless it assigns to variables.

        Returns:
            A report; printed, it lists loops and routines with the user's lines, the operations that NumPy runs with
            the reasons, flops, bytes and memory.

        Raises:
            FgradError: any error that a call raises.
        """
        options = {"programs": self._programs, "measure": measure}
        call = Transformed(_run_inspect, self._function, options, is_kept=False)
        return call(*args, **keywords)  # type: ignore[no-any-return]

    def export(
        self, path: str | os.PathLike[str], *args: object, keywords: Mapping[str, Any] | None = None,
        results: str | Sequence[str] | None = None, target: str | None = None, cpu: str = "", features: str = "",
        blas: bool = False, library: bool = True,
    ) -> ExportedFiles:  # fmt: skip
        """Write the program for these arguments as a C function, which needs neither Python nor NumPy.

        `export("build/model", x)` writes `model.h`, `model.o`, `model.json` and a shared library into the folder
        `build`. The parameters of the function `model` are pointers to arguments and results, which are arrays in C
        order, and to a workspace of `model_workspace_bytes()` bytes. It returns 0, or 1 if the result is undefined, as
        for an index out of range or a singular matrix, or if infinities or NaN are in matrix products or
        factorizations, for which NumPy's own code may be needed. It allocates no memory and has no state: threads may
        call it concurrently, each with its own workspace. Results and workspace must not overlap with each other, nor
        with arguments. Variables become constants with their current values. `load_exported` loads the library.

        Args:
            path: folder and name; the name is that of the C function.
            args, keywords: arguments of the function; the C function has their shapes and dtypes.
            results: the names of the results: one name, or one for each item of a tuple, list or dict.
            target: LLVM's target triple, such as "aarch64-unknown-linux-gnu"; None: this machine. For another target
                there is no shared library.
            cpu: the name of the processor, as for gcc's `-march`; "native" for that of this machine; "" for any.
            features: extensions of the processor, such as "+avx2,+fma".
            blas: call BLAS and LAPACK for matrix products, solves and factorizations, instead of emitting loops.
            library: link a shared library, with the C compiler of the variable `CC`, or cc, gcc or clang.

        Returns:
            The paths: `header`, `object`, `description`, and `library`, which may be None.

        Raises:
            UnsupportedError: a NotImplementedError; an operation has no native code; the message names it and its line.
                Or an argument or result is complex, or a container of a user-defined class that is not a dataclass.
            ParameterError: a ValueError; a name is not a C identifier, there is no such target, or no C compiler.
            FgradError: any error that a call raises.

        Example:
            >>> import pathlib, tempfile, numpy as np, fgrad as fg
            >>> energy = fg.compile(fg.value_and_grad(lambda x: np.sum(x**4)))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     files = energy.export(folder + "/energy", np.zeros(3), results=["value", "gradient"], library=False)
            ...     print(next(line for line in files.header.read_text().splitlines() if line.startswith("int ")))
            int energy(const double *x, double *value, double *gradient, void *workspace);
        """
        target_of_code = Target(target, cpu, features, blas)
        options = {
            "programs": self._programs, "path": Path(path), "results": results, "target": target_of_code,
            "library": library and target is None,
        }  # fmt: skip
        call = Transformed(_run_export, self._function, options, is_kept=False)
        return call(*args, **(keywords or {}))  # type: ignore[no-any-return]

    def low_level(self, signature: str, *args: object, keywords: Mapping[str, Any] | None = None) -> Any:
        """Return the program for these arguments as a C function, for libraries that call one in their inner loops.

        `scipy.LowLevelCallable(f)` accepts it, Numba calls it in compiled functions, and `f.address` is for other
        libraries: `ffi.cast("double (*)(double)", f.address)` is a cffi function. Variables become constants with their
        current values.

        Args:
            signature: "double (double)" and "double (double, void *)", as `scipy.integrate.quad` calls them;
                "double (int, double *)" and "double (int, double *, void *)", as `nquad` does;
                "int (double *, intptr_t, double *, void *)", as `scipy.ndimage.generic_filter` does;
                "int (intptr_t *, double *, int, int, void *)", as `geometric_transform` does;
                "void (double *, double *)", a function from a vector to an array, such as a gradient;
                "void (double, double *, double *, double *)", as numbalsoda calls the right-hand side of an equation:
                time, state, result and parameters. It is also for Jacobians of such a function.
            args, keywords: arguments of the function: one floating-point number by default; for pointers one vector,
                or several numbers; for the right-hand side the time, the state, and the parameters as one vector or
                several numbers. For `intptr_t *` they are 64-bit integers. Numbers in `keywords` and in dicts are
                ordered by their names.

        Returns:
            A `ctypes` function with an attribute `address`. The code exists as long as the function. If the result is
            undefined, or the number of arguments differs from the example, it returns NaN, or 0 for failure, or writes
            NaN. Arrays are in C order, and the result must not overlap with arguments. The two signatures of `void`
            functions pass no counts: their arrays must be as large as those of the example.

        Raises:
            UnsupportedError: a NotImplementedError; an operation has no native code, or the program needs much memory.
            ParameterError: a ValueError; there is no such signature, or the function does not fit it.

        Example:
            >>> import numpy as np, fgrad as fg, scipy.integrate
            >>> density = fg.compile(lambda x: np.exp(-x * x)).low_level("double (double)")
            >>> round(scipy.integrate.quad(scipy.LowLevelCallable(density), 0.0, np.inf)[0], 6)
            0.886227
        """
        options = {"programs": self._programs, "signature": signature}
        call = Transformed(_run_low_level, self._function, options, is_kept=False)
        return call(*(args or (() if keywords else (1.0,))), **(keywords or {}))

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None or not hasattr(self._function, "__get__"):
            return self
        return Compiled(self._function.__get__(instance, owner), self._given, self._of_instances[instance])

    def __reduce__(self) -> Any:
        whole = super().__reduce__()
        return whole if isinstance(whole, str) or whole[0] is getattr else (Compiled, (self._function, self._given))


def _run_compile(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], programs: Programs
) -> Any:
    if any(observer.wants_python for observer in running.observers):
        return _run_python(function, args, keywords, programs)
    engine = programs.engine
    if not programs.is_native and any(map(engine.owns, flatten((args, keywords))[0])):
        of_engine, inputs = programs.for_arrays(engine, function, args, keywords)
        return of_engine.with_arrays(inputs)
    form = Form(function, programs.static, args, keywords)
    if recording() is not None or any(trace.wants_python for trace in followers(form.inputs)):
        return call_users(function, args, keywords)  # it becomes part of the enclosing program
    program, form = programs.for_form(function, form)
    if program is None:
        warnings.warn(
            f"{name_of(function)} uses a traced value that is not one of its arguments, so there is no program for it, "
            "and it runs as it would without compile.\nPass the value as an argument.",
            errors.CompileWarning,
            stacklevel=depth_of_user(),
        )
        return call_users(function, args, keywords)
    programs.note_layout(program, form, args, keywords)
    try:
        return program(form.inputs)
    except errors.GraphInputError:
        if int not in map(type, form.inputs):
            raise
    # The dtype of a result depends on the integers, as that of a power with a negative exponent: they become constants.
    program, form = programs.for_form_with_integers_fixed(function, form)
    assert program is not None
    return program(form.inputs)


def _run_inspect(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], programs: Programs, measure: bool
) -> Inspection:
    if not programs.is_native:
        raise errors.ParameterError(
            "inspect describes native code, and this function runs on another engine.\n"
            "Its program is fg.trace(f)(x), and what JAX makes of it jax.jit(fg.to_jax(f)).lower(x).compile()."
        )
    program, form = programs.alone(function, args, keywords)
    eager = (lambda: function(*args, **keywords)) if measure else None
    return program.inspected(form.inputs, eager, programs.count, programs.changes())


def _run_export(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], programs: Programs, path: Path,
    results: str | Sequence[str] | None, target: Target, library: bool,
) -> ExportedFiles:  # fmt: skip
    exporting: Any = importlib.import_module("fgrad.native.exporting")  # rarely used
    if library:
        exporting.compiler()
    program, form = _program_alone(function, args, keywords, programs)
    code = exporting.object_file(program.signature(path.name, function, form, results), frozen(program.graph), target)
    return exporting.write(code, path, library)  # type: ignore[no-any-return]


def _run_low_level(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], programs: Programs, signature: str
) -> Any:
    lowlevel: Any = importlib.import_module("fgrad.native.lowlevel")
    if signature not in lowlevel.SIGNATURES:
        known = "\n".join(f"  {each}" for each in lowlevel.SIGNATURES)
        raise errors.ParameterError(f"low_level has no signature {signature!r:.80}; there are:\n{known}")
    program, _ = _program_alone(function, args, keywords, programs)
    program.check_pure()
    return lowlevel.low_level(frozen(program.graph), program.name, signature)


def _program_alone(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], programs: Programs
) -> tuple[Program, Form]:
    """Return the program for arguments, for code that runs without Python."""
    if not programs.is_native:
        raise errors.ParameterError("a C function is native code, and this function runs on another engine.")
    return programs.alone(function, args, keywords)


def _run_python(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], programs: Programs
) -> Any:
    """Run the original function on tensors, as in a recording, for observers of its operations."""
    form = Form(function, programs.static, args, keywords)
    inputs = [x if type(x) in (int, float, complex) else boxed(x) for x in form.inputs]
    for argument, x in zip(form.inputs, inputs, strict=True):
        if isinstance(argument, np.ndarray) and not argument.shape:
            mark_as_array(x)
    args, keywords = form.outline.whole(inputs)
    found = call_users(function, args, keywords)
    for argument, x in zip(form.inputs, inputs, strict=True):
        if isinstance(argument, np.ndarray) and strip_ended(x) is not argument:
            overwrite(argument, x)
    return tree_map(lambda x: result_of(x) if is_number(x) else x, found)


@overload
def compile(function: np.ufunc) -> Compiled[..., Any]: ...
@overload
def compile(function: Callable[P, R]) -> Compiled[P, R]: ...
@overload
def compile(
    *,
    static: Any = (),
    threads: int | None = None,
    precise: bool = False,
    backend: str = "native",
    device: Any = None,
    cache: bool | str | os.PathLike[str] | None = None,
    reroll: bool = True,
) -> Callable[[Callable[P, R]], Compiled[P, R]]: ...
@overload
def compile(
    function: Callable[P, R],
    *,
    static: Any = (),
    threads: int | None = None,
    precise: bool = False,
    backend: str = "native",
    device: Any = None,
    cache: bool | str | os.PathLike[str] | None = None,
    reroll: bool = True,
) -> Compiled[P, R]: ...
@names_keywords
def compile(
    function: Callable[..., Any] | None = None,
    *,
    static: Any = (),
    threads: int | None = None,
    precise: bool = False,
    backend: str = "native",
    device: Any = None,
    cache: bool | str | os.PathLike[str] | None = None,
    reroll: bool = True,
) -> Any:
    """Return a function that computes the same results by native code.

    The first call with arguments of a given form records the operations of `function`, as `trace` does, and compiles
    them. Slices, elementwise operations and reductions are fused into loops without intermediate arrays; matrix
    products, solves and factorizations call BLAS and LAPACK; NumPy runs the remaining operations. Further calls run
    the compiled code only, without the function's Python code.

    Arrays, tensors and Python numbers are inputs of the program. Other values are constants of it, and so are integers
    whose value is used, as by `range(n)`: there is a program for each combination of shapes, memory orders, dtypes,
    containers and constants. Values that the function refers to are constants, too: each call checks whether a number,
    an array or an attribute has changed, and then the function is recorded again. Variables are read when the program
    runs, and assignments to them take effect when it has finished, either all or none. Writes into arguments, such as
    `w -= step`, also take effect then, without a new array where the program allows it.

    A Python loop is recorded iteration by iteration, and rerolled: repeated iterations become one native loop.
    `scan`, `fori_loop`, `while_loop` and `map` record a single iteration of a loop. `inspect` reports the loops.

    Transforms apply to a compiled function, and run native code for derivatives and batches. The usual way is to
    compile a gradient function.

    Args:
        function: a function of arrays, numbers or containers of them, which returns the same kinds of values. It cannot
            request values that depend on its arguments (`if x > 0`).
        static: names or positions of arguments that are constants of the program, including arrays and floats.
        threads: the number of threads for large loops and products; by default that of FGRAD_NUM_THREADS or
            OMP_NUM_THREADS, or the number of cores. The result does not depend on it.
        precise: compute elementary functions by the scalar functions of the C library, correct to one unit in the last
            place on processors with an extended precision, such as x86, and to a few units on others. By default they
            are vectorized, and correct to four units.
        backend: "native", or "jax": JAX compiles the program, and runs it on a CPU, GPU or TPU, with NumPy's dtypes.
            For JAX arrays, which may be sharded over devices, the function returns JAX arrays.
        device: the device on which JAX runs it for NumPy arrays: "cpu", "gpu", "tpu", or one of `jax.devices()`; by
            default JAX's default device.
        cache: store native code in files, so that the next process need not compile it again: True for the user's
            cache folder, or a folder into which other users cannot write. By default the value of the variable
            FGRAD_CACHE: 1, or a folder. A program that calls the code of a SciPy function, such as `gammaln`, is not
            stored.
        reroll: find Python loops in the recorded program. Otherwise their iterations are compiled one by one, which
            takes longer; `scan`, `fori_loop`, `while_loop` and `map` are loops in either case.

    Returns:
        A function of the same arguments, which returns Tensors for arrays and numbers.

    Raises:
        MissingExtraError: an ImportError, from a call; llvmlite is not installed: `pip install 'fgrad[compile]'`; or
            JAX is not: `pip install 'fgrad[jax]'`.
        NotLoweredError: a NotImplementedError, from a call; JAX has no counterpart of an operation.
        ConcretizationError: a TypeError, from a call; `function` requests a value.
        FrozenValueError: a RuntimeError, from a call; `function` uses a value that changes from call to call, such as a
            random number, and that is not one of its arguments.
        ParameterError: a ValueError; `threads` is not a positive integer, there is no such backend, an option belongs
            to another backend, or other users may write into the cache folder.
        InPlaceError: a TypeError, from a call; `function` writes into an argument that shares memory with another one
            or with an array to which it refers, or that is an array of JAX.
        NotCallableError: a TypeError; `function` is not a function.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> @fg.compile
        ... @fg.value_and_grad
        ... def loss(x):
        ...     return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)
        >>> loss(np.array([1.0, 2.0, 3.0]))
        (Tensor(201.), Tensor([-400., 1002., -200.]))
    """
    if threads is not None and (type(threads) is not int or threads < 1):
        raise errors.ParameterError(f"threads of compile must be a positive integer, or None; it is {threads!r}.")
    _check_backend(backend, threads, precise, device)
    if backend != "native" and (cache or not reroll):
        raise errors.ParameterError(f"cache and reroll of compile are for native code, not for backend={backend!r}.")
    folder = cache_folder(cache) if backend == "native" else None
    options = {
        "static": static,
        "options": Options(threads, precise, backend=backend, device=device, cache=folder, finds_loops=reroll),
    }
    return (lambda function: Compiled(function, options)) if function is None else Compiled(function, options)


def _check_backend(backend: str, threads: int | None, precise: bool, device: object) -> None:
    """Raise for an unknown backend, and for options that it does not support.

    Raises:
        ParameterError: a ValueError.
    """
    if backend not in ENGINES:
        known = " or ".join(map(repr, sorted(ENGINES, reverse=True)))
        raise errors.ParameterError(f"backend of compile must be {known}, and is {backend!r:.50}.")
    if backend == "native" and device is not None:
        raise errors.ParameterError("device of compile is for backend='jax'; native code runs on the CPU.")
    if backend != "native" and (threads is not None or precise):
        raise errors.ParameterError(f"threads and precise of compile are for native code, not for backend={backend!r}.")
