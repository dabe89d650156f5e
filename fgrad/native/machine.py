"""The compiler backend: LLVM IR to machine code. The only module that uses llvmlite.

Machine.this()            the compiler of this machine
machine.compiled(text)    a module, compiled and loaded in the background; its functions live as long as it does
"""

from __future__ import annotations

import _thread
import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import SimpleQueue
from types import MappingProxyType
from typing import Any

import numpy as np

from fgrad import errors
from fgrad._locks import ALSO_STEADY, STEADY, apart
from fgrad.native.cache import CodeCache
from fgrad.native.lanes import Widths

VECTOR_FUNCTIONS = {
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "erf", "erfc", "exp", "exp2",
    "expm1", "hypot", "log", "log10", "log1p", "log2", "pow", "sin", "sinh", "tan", "tanh",
}  # fmt: skip
"""Functions with vector variants in glibc's libmvec."""


class Module:
    """Native code in memory, which lives as long as this object; it may still be compiling.

    Args:
        compiled: returns the engine that holds the code. It calls its argument when only LLVM is left to run, without
            the interpreter: from then on the calling thread continues.
    """

    def __init__(self, compiled: Callable[[Callable[[], None]], Any]) -> None:
        self._process = os.getpid()
        self._start(compiled)

    def _start(self, compiled: Callable[[Callable[[], None]], Any]) -> None:
        self._engine: Any = None
        self._error: BaseException | None = None
        self._leaves_python, self._making = SimpleQueue[None](), _thread.allocate_lock()
        # A separate thread: if Ctrl-C interrupts llvmlite, it frees memory twice. `threading.Thread` and
        # `threading.Event` are avoided, since an interrupt may leave their locks inconsistent; and the thread must
        # not wait for a lock while it holds the compiler.
        self._waiting: list[Any] = [compiled]  # empty once compiled; restarted in a forked child
        self._making.acquire()
        _thread.start_new_thread(self._make, (compiled,))
        self._leaves_python.get()
        if not self._waiting:
            self.ready()

    def _make(self, compiled: Callable[[Callable[[], None]], Any]) -> None:
        start = time.perf_counter()
        try:
            self._engine = compiled(lambda: self._leaves_python.put(None))
        except BaseException as error:
            self._error = error
        self._seconds = time.perf_counter() - start
        self._waiting.clear()
        self._making.release()
        self._leaves_python.put(None)

    def ready(self) -> float:
        """Wait until the code is loaded, and return the seconds that compiling took."""
        if self._waiting and self._process != os.getpid():  # the compiling thread does not exist in a forked child
            self._process = os.getpid()
            self._start(*self._waiting)
        if self._waiting:
            with self._making:
                pass
        if self._error is not None:
            raise self._error
        return self._seconds

    def address(self, name: str) -> int:
        """Return the address of a function."""
        self.ready()
        return int(apart(lambda: self._engine.get_function_address(name)))

    def close(self) -> None:
        """Free the code."""
        self.ready()
        apart(self._engine.close)


def _new_machine() -> Machine:
    with STEADY:
        return Machine()


def _llvm_lock() -> Any:
    return getattr(getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None), "_lock", None)


ALSO_STEADY.append(_llvm_lock)


class Machine:
    """A compiler for one kind of processor: this machine's by default.

    Args:
        triple: LLVM's target triple.
        cpu, features: LLVM's names of the processor and of its extensions.

    Attributes:
        triple: LLVM's target triple.
        vectors: the number of lanes of the widest registers, by the bits of an element.
        has_vector_functions: whether libmvec is available.
    """

    def __init__(self, triple: str | None = None, cpu: str = "", features: str = "") -> None:
        self._llvm: Any = importlib.import_module("llvmlite.binding")
        is_here = triple is None
        if is_here:
            self._llvm.initialize_native_target()
            self._llvm.initialize_native_asmprinter()
            cpu, features = self._llvm.get_host_cpu_name(), self._llvm.get_host_cpu_features().flatten()
        else:
            self._llvm.initialize_all_targets()
            self._llvm.initialize_all_asmprinters()
        self.cpu, self.features = cpu, features
        self.triple: str = self._llvm.get_default_triple() if triple is None else triple
        self._width = width = 512 if "+avx512f" in features else 256 if "+avx2" in features else 128
        self.vectors = {64: width // 64, 32: width // 32}
        has_long_vectors = is_here and platform.machine() == "x86_64" and width > 128
        self.has_vector_functions = has_long_vectors and self._loads("libmvec.so.1")

    def _loads(self, library: str) -> bool:
        try:
            self._llvm.load_library_permanently(library)
        except RuntimeError:
            return False
        return True

    @staticmethod
    @functools.cache
    def this() -> Machine:
        """Return the compiler of this machine.

        Raises:
            MissingExtraError: llvmlite is not installed.
        """
        try:
            return apart(_new_machine)
        except ImportError as error:  # raised in this thread, which has the user's line
            raise errors.MissingExtraError(
                "fgrad.compile needs llvmlite, which is not installed.\nInstall it: pip install 'fgrad[compile]'."
            ) from error

    def widths(self, precise: bool) -> Widths:
        """Return the vector registers and the vectorized functions.

        Args:
            precise: whether elementary functions are computed one element at a time.
        """
        has_functions = self.has_vector_functions and not precise
        return Widths(self.vectors, frozenset(VECTOR_FUNCTIONS if has_functions else ()))

    def declarations(self, used: Mapping[str, tuple[str, ...]], precise: bool = False) -> str:
        """Return the declarations of library functions and of their vector variants.

        Args:
            used: result type and argument types, by function.
            precise: whether to leave out vector variants.
        """
        vectors: list[str] = []
        groups: list[str] = []
        used, lines = _with_wider_types(used) if precise else (used, [])
        for name, (result, *kinds) in used.items():
            group = ""
            plain = name.removesuffix("f") if result == "float" else name
            if (
                self.has_vector_functions
                and not precise
                and plain in VECTOR_FUNCTIONS
                and result in ("double", "float")
            ):
                count = self.vectors[64 if result == "double" else 32]
                letter = {512: "e", 256: "d"}[self._width]
                vector = f"_ZGV{letter}N{count}{'v' * len(kinds)}_{name}"
                mapping = f"_ZGV_LLVM_N{count}{'v' * len(kinds)}_{name}({vector})"
                group = f" #{len(groups) + 2}"
                groups.append(f'attributes{group} = {{ "vector-function-abi-variant"="{mapping}" {_PURE} }}')
                vectors.append(f"ptr @{vector}")
                if vector not in used:
                    given = ", ".join([f"<{count} x {result}>"] * len(kinds))
                    lines.append(f"declare <{count} x {result}> @{vector}({given})")
            pure = "" if name.startswith("llvm.") or name in _IMPURE else group or " #1"
            lines.append(f"declare {result} @{name}({', '.join(kinds)}){pure}")
        if vectors:
            kept = f"[{len(vectors)} x ptr] [{', '.join(vectors)}]"
            lines.append(f'@llvm.compiler.used = appending global {kept}, section "llvm.metadata"')
        return "\n".join(lines + groups)

    def attributes(self) -> str:
        """Return the attribute groups of compiled functions and of library functions."""
        named = {"target-cpu": self.cpu, "target-features": self.features, "prefer-vector-width": self._width}
        own = " ".join(f'"{name}"="{value}"' for name, value in named.items() if value)
        # Vectors that are spilled during a call must not straddle cache lines.
        aligned = f"alignstack={self._width // 8} " if self._width > 128 else ""
        return f"attributes #0 = {{ nounwind {aligned}{own} }}\nattributes #1 = {{ {_PURE} }}"

    def compiled(
        self, text: str, unvectorized: str = "", has_iterations: bool = False,
        symbols: Mapping[str, int] = MappingProxyType({}), cache: CodeCache | None = None,
    ) -> Module:  # fmt: skip
        """Start to compile and load a module.

        Args:
            text: LLVM IR whose loops are final: vectorized already, or to remain scalar.
            unvectorized: functions with loops for LLVM's vectorizer; they become part of the same module.
            has_iterations: whether much of the module runs often enough to be worth all of LLVM's passes.
            symbols: addresses of symbols declared in the text.
            cache: caches the code for other processes.
        """
        if cache is None and not symbols:
            return Module(functools.partial(self._compiled, text, unvectorized, has_iterations))
        return Module(functools.partial(self._from_object, text, unvectorized, has_iterations, symbols, cache))

    def _compiled(self, text: str, unvectorized: str, has_iterations: bool, leaves_python: Callable[[], None]) -> Any:
        with STEADY:
            context, target = self._llvm.create_context(), self._target(opt=1, jit=True)
            module = self._optimized(text, unvectorized, has_iterations, context, target)
            engine = self._llvm.create_mcjit_compiler(module, target)
            leaves_python()
            engine.finalize_object()
            engine.remove_module(module)  # the IR is no longer needed
            module.close()
            context.close()  # frees all of LLVM's constants
        return engine

    def _from_object(
        self, text: str, unvectorized: str, has_iterations: bool, symbols: Mapping[str, int], cache: CodeCache | None,
        leaves_python: Callable[[], None],
    ) -> Any:  # fmt: skip
        """Return an engine that holds an object file, which is compiled unless it is cached."""
        llvm = self._llvm
        digest = self._digest(text, unvectorized, str(has_iterations))
        with STEADY:
            context, target = llvm.create_context(), self._target(opt=1, jit=True)
            code = None if cache is None else cache.get(digest)
            if code is None:
                module = self._optimized(text, unvectorized, has_iterations, context, target)
                code = target.emit_object(module)
                module.close()
                if cache is not None:
                    cache.put(digest, code)
            empty = llvm.parse_assembly(f'target triple = "{self.triple}"', context)
            engine = llvm.create_mcjit_compiler(empty, target)
            # Symbols are global to the process; STEADY serializes programs that give them different addresses.
            for name, address in symbols.items():
                llvm.add_symbol(name, address)
            engine.add_object_file(llvm.ObjectFileRef.from_data(code))
            engine.finalize_object()
            leaves_python()
            engine.remove_module(empty)  # else the engine frees it, possibly after its context
            empty.close()
            context.close()
        return engine

    def _digest(self, *texts: str) -> str:
        """Return the cache key: texts, processor and compiler versions."""
        versions = self._llvm.llvm_version_info, importlib.metadata.version("llvmlite"), _passes()
        whole = "\0".join([self.triple, self.cpu, self.features, str(versions), self.attributes(), *texts])
        return hashlib.sha256(whole.encode()).hexdigest()

    def _target(self, **options: object) -> Any:
        return self._llvm.Target.from_triple(self.triple).create_target_machine(
            cpu=self.cpu, features=self.features, **options
        )

    def _optimized(self, text: str, unvectorized: str, has_iterations: bool, context: object, target: object) -> Any:
        """Return a module after LLVM's passes."""
        module = self._parsed(text, context)
        builder = self._pipeline(target, 1, vectors=False)
        self._run(builder.getModulePassManager() if has_iterations else self._light_passes(), module, builder)
        if unvectorized:
            module.link_in(self._vectorized(unvectorized, context, target))
        return module

    def object_code(self, text: str) -> bytes:
        """Return an object file, for a shared library.

        Args:
            text: a module of LLVM IR without attribute groups.

        Raises:
            ParameterError: a ValueError; LLVM has no such target.
        """
        try:
            self._llvm.Target.from_triple(self.triple)
        except RuntimeError as error:
            raise errors.ParameterError(f"LLVM has no target {self.triple!r:.80}: {error}") from None
        return apart(lambda: self._object_code(text))

    def _object_code(self, text: str) -> bytes:
        llvm = self._llvm
        with STEADY:
            context = llvm.create_context()
            target = self._target(opt=3, reloc="pic", codemodel="default")
            module = self._parsed(text, context)
            builder = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=3))
            self._run(builder.getModulePassManager(), module, builder)
            code: bytes = target.emit_object(module)
            module.close()
            context.close()
        return code

    def _pipeline(self, target: object, level: int, vectors: bool) -> Any:
        """Return the builder of LLVM's default passes of a level, with or without the loop vectorizer."""
        options = self._llvm.create_pipeline_tuning_options(speed_level=level)
        options.loop_vectorization = vectors
        # The loops are short and many, and vectorized for one register width: unrolling, interleaving and SLP
        # vectorization take half of the compile time and gain nothing.
        options.slp_vectorization = options.loop_unrolling = options.loop_interleaving = False
        return self._llvm.create_pass_builder(target, options)

    def _light_passes(self) -> Any:
        passes = self._llvm.create_new_module_pass_manager()
        for add in (passes.add_sroa_pass, passes.add_instruction_combine_pass, passes.add_simplify_cfg_pass):
            add()
        return passes

    def _parsed(self, text: str, context: object) -> Any:
        whole = f'target triple = "{self.triple}"\n{text}\n{self.attributes()}\n'
        module = self._llvm.parse_assembly(whole, context)
        module.verify()
        return module

    def _vectorized(self, text: str, context: object, target: object) -> Any:
        """Return a module after LLVM's loop vectorizer."""
        module = self._parsed(text, context)
        builder = self._pipeline(target, 2, vectors=True)
        self._run(builder.getModulePassManager(), module, builder)
        return module

    @staticmethod
    def _run(passes: Any, module: Any, builder: Any) -> None:
        """Run passes; llvmlite leaks 2 kB for each builder, and a builder is good for one run."""
        passes.run(module, builder)
        _free(passes)


@functools.cache
def _passes() -> str:
    """Return a digest of this file, which decides how IR is compiled."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


def _free(passes: object) -> None:
    """Free a pass manager of 70 kB, which llvmlite leaks: its `_dispose` is hidden by an earlier base class."""
    first, *bases = type(passes).__mro__[1:]
    if "_dispose" not in vars(type(passes)) and "_dispose" in vars(first):
        dispose = next((vars(base)["_dispose"] for base in bases if "_dispose" in vars(base)), None)
        if dispose is not None:
            dispose(passes)


_INACCURATE = {"log10", "tan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "cbrt", "erf", "erfc"}
"""Functions for which C libraries have errors above one unit in the last place."""

_WIDER_TYPES = {"float": ("f", "double", "")}
"""By type: the suffix of its functions, the next wider type, and the suffix of the wider functions."""

if np.finfo(np.longdouble).nmant == 63:  # x87 extended precision
    _WIDER_TYPES["double"] = "", "x86_fp80", "l"


def _with_wider_types(used: Mapping[str, tuple[str, ...]]) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Return the library functions to declare, and definitions that round the results of wider functions."""
    needed: dict[str, tuple[str, ...]] = {}
    texts: dict[str, str] = {}
    for name, (kind, *kinds) in used.items():
        end, longer, its_end = _WIDER_TYPES.get(kind, ("", "", ""))
        plain = name.removesuffix(end)
        if not longer or plain not in _INACCURATE:
            needed[name] = kind, *kinds
            continue
        function = f"{plain}{its_end}"
        needed[function] = (longer,) * (1 + len(kinds))
        places = range(len(kinds))
        made_long = "\n".join(f"  %long{place} = fpext {kind} %x{place} to {longer}" for place in places)
        given = ", ".join(f"{longer} %long{place}" for place in places)
        texts[name] = (
            f"define internal {kind} @{name}({', '.join(f'{kind} %x{place}' for place in places)}) #1 {{\n{made_long}\n"
            f"  %found = call {longer} @{function}({given})\n"
            f"  %short = fptrunc {longer} %found to {kind}\n  ret {kind} %short\n}}"
        )
    return {name: kinds for name, kinds in needed.items() if name not in texts}, list(texts.values())


_IMPURE = {
    "malloc", "free", "read", "write", "close", "sched_yield", "pthread_create", "pthread_join", "pthread_sigmask",
    "sigfillset", "clock_gettime",
}  # fmt: skip
"""Functions with side effects."""

_PURE = "nounwind willreturn memory(none)"
