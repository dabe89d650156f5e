"""The compiler: LLVM's language in, functions of the machine out. The one place that knows llvmlite.

Machine.this()            the compiler of this machine
machine.compiled(text)    a module that is loaded, or soon will be; its functions go when it does
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
from typing import Any, Protocol

import numpy as np

from fgrad import errors
from fgrad._locks import ALSO_STEADY, STEADY, apart
from fgrad.native.lanes import Widths

VECTOR_FUNCTIONS = {
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "erf", "erfc", "exp", "exp2",
    "expm1", "hypot", "log", "log10", "log1p", "log2", "pow", "sin", "sinh", "tan", "tanh",
}  # fmt: skip
"""What glibc's libmvec has for several numbers at once."""


class Cache(Protocol):
    """Keeps code for other processes, as `cache.CodeCache` does."""

    def get(self, digest: str) -> bytes | None:
        """Return code, or None."""

    def put(self, digest: str, code: bytes) -> None:
        """Keep code."""


class Module:
    """Native code in memory, as long as this lives; it may still be on its way there.

    Args:
        compiled: returns the engine that holds the code. It calls what it is given when nothing but LLVM is left to
            run, which needs no interpreter: others may run Python from then on.
    """

    def __init__(self, compiled: Callable[[Callable[[], None]], Any]) -> None:
        self._process = os.getpid()
        self._start(compiled)

    def _start(self, compiled: Callable[[Callable[[], None]], Any]) -> None:
        self._engine: Any = None
        self._error: BaseException | None = None
        self._leaves_python, self._making = SimpleQueue[None](), _thread.allocate_lock()
        # A thread of its own: where Ctrl-C stops it half-way, llvmlite frees memory twice. It is no threading.Thread,
        # and signals by no threading.Event, whose own locks an interrupt may leave in disorder; nor may it wait for a
        # lock while it holds the compiler.
        self._waiting: list[Any] = [compiled]  # for a child of a fork; until it is done
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
        """Wait until the code is there, and return the seconds that it took."""
        if self._waiting and self._process != os.getpid():  # the thread that compiles it has stayed in the other one
            self._process = os.getpid()
            self._start(*self._waiting)
        if self._waiting:
            with self._making:
                pass
        if self._error is not None:
            raise self._error
        return self._seconds

    def address(self, name: str) -> int:
        """Return where a function begins."""
        self.ready()
        return int(apart(lambda: self._engine.get_function_address(name)))

    def close(self) -> None:
        """Free the code."""
        self.ready()
        apart(self._engine.close)


def _made() -> Machine:
    with STEADY:
        return Machine()


def _lock_of_llvm() -> Any:
    return getattr(getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None), "_lock", None)


ALSO_STEADY.append(_lock_of_llvm)


class Machine:
    """A compiler for one kind of processor: that of this machine, by default.

    Args:
        triple: the processor and system, in LLVM's words.
        cpu, features: the kind of processor, and its extensions.

    Attributes:
        triple: the same.
        vectors: by the bits of a number, how many of them the widest registers hold.
        has_vector_functions: whether libmvec is there.
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
            return apart(_made)
        except ImportError as error:  # here, since the other thread knows nothing of the user's line
            raise errors.MissingExtraError(
                "fgrad.compile needs llvmlite, which is not installed.\nInstall it: pip install 'fgrad[compile]'."
            ) from error

    def widths(self, precise: bool) -> Widths:
        """Return how many elements are computed at once.

        Args:
            precise: elementary functions are computed one by one.
        """
        has_functions = self.has_vector_functions and not precise
        return Widths(self.vectors, frozenset(VECTOR_FUNCTIONS if has_functions else ()))

    def declarations(self, used: Mapping[str, tuple[str, ...]], precise: bool = False) -> str:
        """Return what says which functions of libraries are called, and what computes several numbers at once.

        Args:
            used: the functions, with their results and arguments.
            precise: none of them is to compute several numbers at once.
        """
        vectors: list[str] = []
        groups: list[str] = []
        used, lines = _with_longer_numbers(used) if precise else (used, [])
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
            pure = "" if name.startswith("llvm.") or name in _ACTS else group or " #1"
            lines.append(f"declare {result} @{name}({', '.join(kinds)}){pure}")
        if vectors:
            kept = f"[{len(vectors)} x ptr] [{', '.join(vectors)}]"
            lines.append(f'@llvm.compiler.used = appending global {kept}, section "llvm.metadata"')
        return "\n".join(lines + groups)

    def attributes(self) -> str:
        """Return the attributes of the functions that are compiled, and of those of libraries."""
        named = {"target-cpu": self.cpu, "target-features": self.features, "prefer-vector-width": self._width}
        own = " ".join(f'"{name}"="{value}"' for name, value in named.items() if value)
        # A vector that is kept on the stack during a call is not to lie in two lines of the cache.
        aligned = f"alignstack={self._width // 8} " if self._width > 128 else ""
        return f"attributes #0 = {{ nounwind {aligned}{own} }}\nattributes #1 = {{ {_PURE} }}"

    def compiled(
        self, text: str, narrow: str = "", has_iterations: bool = False,
        symbols: Mapping[str, int] = MappingProxyType({}), cache: Cache | None = None,
    ) -> Module:  # fmt: skip
        """Begin to compile a module, and to load it.

        Args:
            text: in LLVM's language; its loops are as they should be.
            narrow: functions with loops that LLVM is to make wide; they belong to the same module.
            has_iterations: much of the module runs so often that LLVM is to look at all of it.
            symbols: addresses of what is declared in the text.
            cache: keeps the code for other processes.
        """
        if cache is None and not symbols:
            return Module(functools.partial(self._compiled, text, narrow, has_iterations))
        return Module(functools.partial(self._from_object, text, narrow, has_iterations, symbols, cache))

    def _compiled(self, text: str, narrow: str, has_iterations: bool, leaves_python: Callable[[], None]) -> Any:
        with STEADY:
            context, target = self._llvm.create_context(), self._target(jit=True)
            module = self._optimized(text, narrow, has_iterations, context, target)
            engine = self._llvm.create_mcjit_compiler(module, target)
            leaves_python()
            engine.finalize_object()
            engine.remove_module(module)  # what it was made of is of no more use: the code lies in memory
            module.close()
            context.close()  # and with it go all the numbers that LLVM has met in the code
        return engine

    def _from_object(
        self, text: str, narrow: str, has_iterations: bool, symbols: Mapping[str, int], cache: Cache | None,
        leaves_python: Callable[[], None],
    ) -> Any:  # fmt: skip
        """Return an engine that holds an object file, which is compiled if the cache has none."""
        llvm = self._llvm
        digest = self._digest(text, narrow, str(has_iterations))
        with STEADY:
            context, target = llvm.create_context(), self._target(jit=True)
            code = None if cache is None else cache.get(digest)
            if code is None:
                module = self._optimized(text, narrow, has_iterations, context, target)
                code = target.emit_object(module)
                module.close()
                if cache is not None:
                    cache.put(digest, code)
            empty = llvm.parse_assembly(f'target triple = "{self.triple}"', context)
            engine = llvm.create_mcjit_compiler(empty, target)
            # Names are those of the process. Another program may have other addresses for them, and waits for STEADY.
            for name, address in symbols.items():
                llvm.add_symbol(name, address)
            engine.add_object_file(llvm.ObjectFileRef.from_data(code))
            engine.finalize_object()
            leaves_python()
            engine.remove_module(empty)  # it would be freed with the engine, and maybe after what it lies in
            empty.close()
            context.close()
        return engine

    def _digest(self, *texts: str) -> str:
        """Return what is the same for the same code on the same kind of processor, by the same compiler."""
        versions = self._llvm.llvm_version_info, importlib.metadata.version("llvmlite"), _passes()
        whole = "\0".join([self.triple, self.cpu, self.features, str(versions), self.attributes(), *texts])
        return hashlib.sha256(whole.encode()).hexdigest()

    def _target(self, **options: object) -> Any:
        return self._llvm.Target.from_triple(self.triple).create_target_machine(
            cpu=self.cpu, features=self.features, opt=1, **options
        )

    def _optimized(self, text: str, narrow: str, has_iterations: bool, context: object, target: object) -> Any:
        """Return a module on which LLVM's passes have run."""
        module = self._parsed(text, context)
        builder = self._pipeline(target, 1, vectors=False)
        self._run(builder.getModulePassManager() if has_iterations else self._light_passes(), module, builder)
        if narrow:
            module.link_in(self._widened(narrow, context, target))
        return module

    def object_code(self, text: str) -> bytes:
        """Return an object file, which can become part of a shared library.

        Args:
            text: a whole module in LLVM's language, but for `attributes`.

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
            target = llvm.Target.from_triple(self.triple).create_target_machine(
                cpu=self.cpu, features=self.features, opt=3, reloc="pic", codemodel="default"
            )
            module = self._parsed(text, context)
            builder = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=3))
            self._run(builder.getModulePassManager(), module, builder)
            code: bytes = target.emit_object(module)
            module.close()
            context.close()
        return code

    def _pipeline(self, target: object, level: int, vectors: bool) -> Any:
        """Return what makes LLVM's own passes of a level, which may compute several elements of a loop at once."""
        options = self._llvm.create_pipeline_tuning_options(speed_level=level)
        options.loop_vectorization = vectors
        # The loops are short and many, and made for registers of one width: to unroll them, or to look for more
        # to do at once, takes half of the time and gains nothing.
        options.slp_vectorization = options.loop_unrolling = options.loop_interleaving = False
        return self._llvm.create_pass_builder(target, options)

    def _light_passes(self) -> Any:
        passes = self._llvm.create_new_module_pass_manager()
        for tidies in (passes.add_sroa_pass, passes.add_instruction_combine_pass, passes.add_simplify_cfg_pass):
            tidies()
        return passes

    def _parsed(self, text: str, context: object) -> Any:
        whole = f'target triple = "{self.triple}"\n{text}\n{self.attributes()}\n'
        module = self._llvm.parse_assembly(whole, context)
        module.verify()
        return module

    def _widened(self, text: str, context: object, target: object) -> Any:
        """Return a module whose loops compute several elements at once."""
        module = self._parsed(text, context)
        builder = self._pipeline(target, 2, vectors=True)
        self._run(builder.getModulePassManager(), module, builder)
        return module

    @staticmethod
    def _run(passes: Any, module: Any, builder: Any) -> None:
        """Run passes; llvmlite keeps 2 kB of each builder, which serves for one run alone."""
        passes.run(module, builder)
        _free(passes)


@functools.cache
def _passes() -> str:
    """Return what is the same for the same way from texts to code, which this file says."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


def _free(passes: object) -> None:
    """Free a pass manager, 70 kB, which llvmlite does not: the method that should comes second among its bases."""
    first, *bases = type(passes).__mro__[1:]
    if "_dispose" not in vars(type(passes)) and "_dispose" in vars(first):
        dispose = next((vars(base)["_dispose"] for base in bases if "_dispose" in vars(base)), None)
        if dispose is not None:
            dispose(passes)


_FAR = {"log10", "tan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "cbrt", "erf", "erfc"}
"""Functions of which C libraries are off by more than one unit in the last place."""

_LONGER = {"float": ("f", "double", "")}
"""By a kind of number, how the names of its functions end, the next longer kind, and how their names end there."""

if np.finfo(np.longdouble).nmant == 63:  # those of x86 processors, where the C library has them
    _LONGER["double"] = "", "x86_fp80", "l"


def _with_longer_numbers(used: Mapping[str, tuple[str, ...]]) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Return the functions that libraries are to have, and the text of those that round what longer numbers give."""
    needed: dict[str, tuple[str, ...]] = {}
    texts: dict[str, str] = {}
    for name, (kind, *kinds) in used.items():
        end, longer, its_end = _LONGER.get(kind, ("", "", ""))
        plain = name.removesuffix(end)
        if not longer or plain not in _FAR:
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


_ACTS = {
    "malloc", "free", "read", "write", "close", "sched_yield", "pthread_create", "pthread_join", "pthread_sigmask",
    "sigfillset", "clock_gettime",
}  # fmt: skip
"""Functions that do something, besides what they return."""

_PURE = "nounwind willreturn memory(none)"
