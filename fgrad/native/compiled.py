"""`fgrad.compile`: a function of the user's, recorded once for each form of its arguments, and run as native code."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, overload

import numpy as np

from fgrad import errors
from fgrad.core.tensor import boxed
from fgrad.core.trace import is_seen, running
from fgrad.core.tree import flatten, tree_map
from fgrad.core.variable import recording
from fgrad.errors.hints import names_keywords
from fgrad.errors.places import depth_of_user
from fgrad.native.artifacts import ExportedFiles, Target
from fgrad.native.cache import cache_folder
from fgrad.native.forms import Form
from fgrad.native.layouts import form_of, layout_of
from fgrad.native.options import ENGINES, Options
from fgrad.native.program import Program, result_of
from fgrad.native.programs import Programs, no_program
from fgrad.native.reports import Inspection
from fgrad.native.static_arguments import OfInstances
from fgrad.rules.closures import followers
from fgrad.transforms.calls import Transformed, name_of
from fgrad.transforms.running import call_users, is_number

P = ParamSpec("P")
R = TypeVar("R")


class Compiled(Transformed, Generic[P, R]):
    """The function that `compile` returns: called, it does what the function does, as native code.

    Args:
        function: the user's.
        options: of `compile`.
        programs: those that there are already, for a method of one object.

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
        if not running.watches and running.call is None:  # the usual case, in the shortest time
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
        """The programs so far, for callers that run them without the transforms of this function."""
        return self._programs

    def inspect(self, *args: object, measure: bool = False, **keywords: object) -> Inspection:
        """Return what the program for these arguments consists of; it is compiled if there is none yet.

        Args:
            args, keywords: as the function is called with them.
            measure: time each stage for these arguments, by running all of them ten times or more, and a call of the
                compiled function and of the function itself, unless it assigns to variables.

        Returns:
            A report; printed, it lists the loops and routines with the user's lines, what NumPy runs and why, flops,
            bytes and memory.

        Raises:
            FgradError: what a call raises, too.
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
        `build`. The function `model` takes the addresses of arguments and results, arrays in C order, and that of a
        workspace of `model_workspace_bytes()` bytes. It returns 0, or 1 where an argument has no result, such as an
        index out of range or a singular matrix, and where infinities or NaN are in products or factors of matrices, for
        which NumPy's own code may be needed. It allocates nothing and keeps nothing: threads with a workspace each may
        call it at once. Results and workspace share no memory with each other, nor with arguments.
        Variables are part of the code, with the values that they have now. `load_exported` loads the library.

        Args:
            path: folder and name; the name is that of the function in C.
            args, keywords: arguments of the function; their shapes and dtypes are those that the C function takes.
            results: what to call the results: one name, or one for each item of a tuple, list or dict.
            target: the processor and system in LLVM's words, such as "aarch64-unknown-linux-gnu"; None: this machine.
                For another one there is no shared library.
            cpu: the kind of processor, as gcc's `-march`; "native" for that of this machine; "" for any.
            features: extensions of the processor, such as "+avx2,+fma".
            blas: call BLAS and LAPACK for products, solutions and factors, in place of loops.
            library: link a shared library, with the C compiler of the variable `CC`, or cc, gcc or clang.

        Returns:
            The paths: `header`, `object`, `description`, and `library`, which may be None.

        Raises:
            UnsupportedError: a NotImplementedError; an operation has no native code; the message names it and its line.
                Or an argument or result is complex, or a container of a class of the user's that is no dataclass.
            ParameterError: a ValueError; a name is none in C, there is no such target, or no C compiler.
            FgradError: what a call raises, too.

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

        `scipy.LowLevelCallable(f)` is made of it, Numba calls it in compiled functions, and `f.address` is for other
        libraries: `ffi.cast("double (*)(double)", f.address)` is a function of cffi. Variables are part of the code,
        with the values that they have now.

        Args:
            signature: "double (double)" and "double (double, void *)", as `scipy.integrate.quad` calls them;
                "double (int, double *)" and "double (int, double *, void *)", as `nquad` does;
                "int (double *, intptr_t, double *, void *)", as `scipy.ndimage.generic_filter` does;
                "int (intptr_t *, double *, int, int, void *)", as `geometric_transform` does;
                "void (double *, double *)", of one array from one vector, such as a gradient;
                "void (double, double *, double *, double *)", as numbalsoda calls the right-hand side of an equation:
                time, state, result and parameters. It is for Jacobians of such a function, too.
            args, keywords: arguments of the function: one floating-point number by default; for addresses one vector,
                or so many numbers; for the right-hand side the time, the state, and the parameters as one vector or so
                many numbers. They are integers of 64 bits for `intptr_t *`. Numbers in `keywords` and in dicts lie in
                the order of their names.

        Returns:
            A function of `ctypes`, with its `address`. The code exists as long as the function does. Where the
            arguments have no result, or their count is another than in the example, it returns NaN, or 0 for failure,
            or writes NaN. Arrays are in C order, and the result shares no memory with arguments. The two signatures of
            `void` functions pass no counts: there the arrays must be as large as those of the example.

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
        program, inputs = programs.for_arrays(engine, function, args, keywords)
        return program.with_arrays(inputs)
    form = Form(function, programs.static, args, keywords)
    if recording() is not None or any(trace.wants_python for trace in followers(form.inputs)):
        return call_users(function, args, keywords)  # it becomes part of the program around it
    program, form = programs.for_form(function, form)
    if program.closes_over_traced:
        programs.forget(form)
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
    # A result has another form for these integers, such as a power with a negative exponent: they become constants.
    program, form = programs.for_form_with_integers_fixed(function, form)
    return program(form.inputs)


def _run_inspect(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], programs: Programs, measure: bool
) -> Inspection:
    if not programs.is_native:
        raise errors.ParameterError(
            "inspect describes native code, and this function runs on another engine.\n"
            "Its program is fg.trace(f)(x), and what JAX makes of it jax.jit(fg.to_jax(f)).lower(x).compile()."
        )
    program, form = programs.for_form(function, Form(function, programs.static, args, keywords))
    if program.closes_over_traced:
        programs.forget(form)
        raise no_program(function)
    eager = (lambda: function(*args, **keywords)) if measure else None
    return program.inspected(form.inputs, eager, programs.count, programs.changes())


def _run_export(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], programs: Programs, path: Path,
    results: str | Sequence[str] | None, target: Target, library: bool,
) -> ExportedFiles:  # fmt: skip
    exporting: Any = importlib.import_module("fgrad.native.exporting")  # which few ask for
    if library:
        exporting.compiler()
    program, form = _program_alone(function, args, keywords, programs)
    code = exporting.object_file(program.signature(path.name, function, form, results), program.frozen(), target)
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
    return lowlevel.low_level(program.frozen(), program.name, signature)


def _program_alone(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], programs: Programs
) -> tuple[Program, Form]:
    """Return the program for arguments, to be run without this process's Python."""
    if not programs.is_native:
        raise errors.ParameterError("a C function is native code, and this function runs on another engine.")
    program, form = programs.for_form(function, Form(function, programs.static, args, keywords))
    if program.closes_over_traced:
        programs.forget(form)
        raise no_program(function)
    return program, form


def _run_python(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], programs: Programs
) -> Any:
    """Run the function itself, on tensors as when it is recorded, for observers of its operations."""
    form = Form(function, programs.static, args, keywords)
    inputs = [x if type(x) in (int, float, complex) else boxed(x) for x in form.inputs]
    args, keywords = form.outline.whole(inputs)
    return tree_map(lambda x: result_of(x) if is_number(x) else x, call_users(function, args, keywords))


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
    """Return a function that does the same as native code.

    The first call with arguments of a form records what `function` computes, as `trace` does, and compiles that.
    Slices, elementwise operations and reductions become loops, which make no arrays on the way; products of matrices,
    and what is solved with them, call the libraries; the rest is left to NumPy. Further calls run the code alone, none
    of the function's Python.

    Arrays, tensors and Python's numbers are inputs of the program. Other values are part of it, and so are integers
    whose value is used, as by `range(n)`: there is a program for each combination of shapes, dtypes, structure, and
    values that are part of it. What the function refers to is part of it, too: where a number, an array or an attribute
    is another than it was, which each call looks at, the function is recorded anew. Variables are read when the program
    runs, and assignments to them are carried out when it has ended, all of them or none.

    A loop of Python's is recorded iteration by iteration, and found again: alike iterations are one native loop.
    `scan`, `fori_loop`, `while_loop` and `map` are loops at once, of which one iteration is recorded. `inspect` says
    which loops there are.

    Transforms take a compiled function as any other, and run native code for derivatives and batches; and a gradient
    function can be compiled, which is the usual way.

    Args:
        function: takes and returns arrays, numbers or containers of them. It cannot ask for values that depend on its
            arguments (`if x > 0`).
        static: names or positions of arguments that are part of the program, arrays and floats too.
        threads: on how many cores large loops and products run; by default what FGRAD_NUM_THREADS or OMP_NUM_THREADS
            says, or all that there are. The result does not depend on it.
        precise: elementary functions are the C library's, one number at a time, and correct to one unit in the last
            place, where the processor has longer numbers for those that are not, as x86 has, and else to a few; by
            default several at once, to four.
        backend: "native", or "jax": JAX compiles the program, and runs it on a CPU, GPU or TPU, in the dtypes that
            NumPy has. Given arrays of JAX's, which may be spread over devices, the function returns such.
        device: where JAX runs it for arrays of NumPy's: "cpu", "gpu", "tpu", or a device of `jax.devices()`; by default
            the first that JAX prefers.
        cache: keep native code in files, so that the next process does not compile it again: True for the user's
            folder of caches, or a folder, into which other users cannot write. By default what the variable FGRAD_CACHE
            says: 1, or a folder. A program that calls the code of SciPy's functions, such as `gammaln`, is not kept.
        reroll: find loops of Python's again in what is recorded. Without it they are compiled as they were recorded,
            which takes longer; `scan` and its kin are loops all the same.

    Returns:
        A function of the same arguments, with Tensors for arrays and numbers in what it returns.

    Raises:
        MissingExtraError: an ImportError, from a call; llvmlite is not installed: `pip install 'fgrad[compile]'`; or
            JAX is not: `pip install 'fgrad[jax]'`.
        NotLoweredError: a NotImplementedError, from a call; JAX has no counterpart of an operation.
        ConcretizationError: a TypeError, from a call; `function` asks for a value.
        FrozenValueError: a RuntimeError, from a call; `function` uses a value that changes from call to call, such as a
            random number, and is not among its arguments.
        ParameterError: a ValueError; `threads` is no positive integer, there is no such backend, or an option is one of
            another backend, or others may write into the folder of the cache.
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
    """Refuse what is no backend, and options that it does not have.

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
