"""Parallel loop nests and matrix products: chunks of work on operating-system threads.

A chunk of a nest is a range of its outermost loop; of matrix products, a range of the stack, of the rows or of the
columns.

`pool` holds the threads. Chunks do not depend on the number of threads, and their partial results are combined in
order, so results are bitwise reproducible.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import cast

from fgrad.native.body import Body
from fgrad.native.elements import Pointers
from fgrad.native.emission import CHUNK, NestFunction, append_accumulation, append_innermost, identity
from fgrad.native.ir import (
    NULL,
    Builder,
    Callee,
    Carried,
    Item,
    Loop,
    Op,
    Parameter,
    Symbol,
    Type,
    Value,
    Variable,
    integer,
)
from fgrad.native.lanes import Widths
from fgrad.native.libraries import runs_in_one_thread
from fgrad.native.linkage import Linkage
from fgrad.native.llvm_text import Used, parameter_list, printed
from fgrad.native.nests import MOST_CHUNKS
from fgrad.native.nodes import LibraryCall, Reduction
from fgrad.native.pool import run_chunks
from fgrad.native.routines import Chunk, Product, write_products
from fgrad.native.scalars import literal, loaded, scalar_of, store

_WORTH_CHUNKS = 1_000_000
"""Instructions from which a nest runs in chunks: about 40 us, several times the overhead of chunks."""
_MOST_MEMORY = 1 << 22

HAS_THREADS = sys.platform.startswith(("linux", "darwin"))
"""Whether POSIX threads are available."""


def default_threads() -> int:
    """Return the number of cores for native code: from the environment variables, or all available cores."""
    for name in ("FGRAD_NUM_THREADS", "OMP_NUM_THREADS"):
        given = os.environ.get(name, "")
        if given.isdigit() and int(given):
            return int(given)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def is_worth_chunks(function: NestFunction) -> bool:
    """Return whether a nest should run in chunks."""
    memory = MOST_CHUNKS * sum(map(_bytes, function.totals))
    return HAS_THREADS and function.iterations > 1 and function.work >= _WORTH_CHUNKS and memory <= _MOST_MEMORY


def _bytes(total: Reduction) -> int:
    """Return the bytes of a chunk's accumulator, in whole cache lines to avoid false sharing."""
    return -(-total.nbytes // 64) * 64


class ChunkedNest:
    """The functions that execute a nest in chunks.

    Args:
        function: executes a chunk; see `emission.CHUNK`.
        fills: the body of a function that initializes arrays.
        parameters: the arrays.
        places: positions of the accumulated arrays among the parameters.
        threads: the number of threads.
        widths: the vector registers of the processor.
        linkage: gives the address of the thread pool's function.

    Attributes:
        used: the library functions that they call.
    """

    def __init__(
        self,
        function: NestFunction,
        fills: Sequence[Item],
        parameters: Sequence[Parameter],
        places: Sequence[int],
        threads: int,
        widths: Widths | None,
        linkage: Linkage,
    ) -> None:
        self._function, self._parameters, self._places = function, list(parameters), list(places)
        self._units = -(-function.iterations // function.chunk_multiple)
        self._count, self._widths = min(MOST_CHUNKS, self._units), widths
        self._run = _Run(self._count, threads, linkage)
        self._stride = sum(map(_bytes, function.totals))
        self._offsets = [0, *accumulate(map(_bytes, function.totals))][:-1]

        self._fills, self._chunk = printed(fills), printed(function.body)
        self.used: Used = {**self._fills[1], **self._chunk[1], **printed(self._all_chunks(""))[1]}

    def text(self, name: str) -> str:
        """Return the functions as LLVM IR; the one with the given name executes all chunks."""
        given = parameter_list(self._parameters)
        functions = {
            f"internal void @{name}_fill({given}) noinline": self._fills[0],
            f"internal void @{name}_chunk({given}, {parameter_list(CHUNK)}) noinline": self._chunk[0],
            f"internal void @{name}_job({parameter_list([_SHARED, _NUMBER])})": printed(self._job(name))[0],
            f"hidden void @{name}({given}) noinline": printed(self._all_chunks(name))[0],
        }
        return _definitions(functions)

    def _job(self, name: str) -> list[Item]:
        """Return the function that executes one chunk, with the array addresses in `_SHARED`."""
        code, function = Builder(), self._function
        *arrays, partial = _shared(code, len(self._parameters) + 1)
        with code.when(code.compare("slt", _NUMBER, integer(self._count))):
            ends = [
                code.mul(each, integer(function.chunk_multiple))
                for each in _chunk_bounds(code, self._units, self._count)
            ]
            base = code.address(partial, Type.I8, code.mul(_NUMBER, integer(self._stride)))
            given = list(arrays)
            for place, offset in zip(self._places, self._offsets, strict=True):
                given[place] = code.address(base, Type.I8, integer(offset))
            code.do(Op.CALL, None, *given, _NUMBER, *ends, attribute=_local_callee(f"{name}_chunk"))
        return code.body

    def _all_chunks(self, name: str) -> list[Item]:
        """Return the function that executes all chunks and combines their partial results."""
        code = Builder()
        code.do(Op.CALL, None, *self._parameters, attribute=_local_callee(f"{name}_fill"))
        partial: Value = NULL
        if self._stride:
            partial = code.call("malloc", integer(self._stride * self._count), result=Type.PTR)
        self._run.append(code, f"{name}_job", [*self._parameters, partial])
        for place, total, offset in zip(self._places, self._function.totals, self._offsets, strict=True):
            add_up = self._combine_scalars if total.size == 1 else self._combine_arrays
            add_up(code, self._parameters[place], partial, total, offset)
        if self._stride:
            code.do(Op.CALL, None, partial, attribute=Callee("@free"))
        return code.body

    def _combine_scalars(self, code: Builder, target: Value, partial: Value, total: Reduction, offset: int) -> None:
        """Append the combination of scalar partial results: a loop over the chunks."""
        kind = scalar_of(total.dtype)
        sum_ = Carried(literal(identity(total.kind, total.dtype), total.dtype))
        with code.loop(self._count) as chunk:
            place = code.add(code.mul(chunk, integer(self._stride)), integer(offset))
            value = loaded(code, kind, code.address(partial, Type.I8, place))
            sum_.next = append_accumulation(code, total.kind, kind, sum_, value, in_order=True)
        cast(Loop, code.body[-1]).carried.append(sum_)
        store(code, kind, sum_.after, target)

    def _combine_arrays(self, code: Builder, target: Value, partial: Value, total: Reduction, offset: int) -> None:
        """Append the combination of array partial results: a loop over the elements."""
        kind = scalar_of(total.dtype)
        chunks = [
            code.address(partial, Type.I8, integer(chunk * self._stride + offset)) for chunk in range(self._count)
        ]
        loop = Loop(Variable(), integer(0), integer(total.size))
        with code.within(loop.body):
            first, *others = [loaded(code, kind, code.address(base, kind.stored, loop.variable)) for base in chunks]
            for value in others:
                first = append_accumulation(code, total.kind, kind, first, value, in_order=True)
            store(code, kind, first, code.address(target, kind.stored, loop.variable))
        append_innermost(code, loop, self._widths, total.size)


def products_in_chunks(
    item: LibraryCall, cut: tuple[str, int, int], pointers: Pointers, threads: int, linkage: Linkage
) -> tuple[Callable[[str], str], Used]:
    """Return the definition, by name, of functions that compute products in chunks, and the functions that they call.

    Args:
        item: the products.
        cut: the split axis, its size, and the number of chunks.
        pointers: the arrays in memory; the factors and the result become parameters.
        threads: the number of threads.
        linkage: gives the addresses of functions.
    """
    arrays = [pointers.at(each) for each in (*item.arguments, item)]
    parameters, (axis, size, count) = list(pointers.parameters.values()), cut
    run, job = _Run(count, threads, linkage), Body(item.dtype, linkage)
    given = dict(zip(parameters, _shared(job, len(parameters)), strict=True))
    with job.when(job.compare("slt", _NUMBER, integer(count))):
        low, high = _chunk_bounds(job, size, count)
        write_products(job, item.options, [given[x] for x in arrays], Chunk(axis, low, job.sub(high, low)))
    text, used = job.printed()

    def definition(name: str) -> str:
        code = Builder()
        run.append(code, f"{name}_job", parameters)
        functions = {
            f"internal void @{name}_job({parameter_list([_SHARED, _NUMBER])})": text,
            f"hidden void @{name}({parameter_list(parameters)}) noinline": printed(code.body)[0],
        }
        return _definitions(functions)

    return definition, used


_WORTH_CHUNKS_OF_PRODUCTS, _WORTH_MANY_CHUNKS = 1 << 22, 1 << 33
"""Multiplications, times the item size, from which a matrix product runs in chunks (about 30 us), and in more than a
few: more chunks take more time in total, since BLAS packs a factor for each."""
_WORTH_CHUNKS_OF_MATRIX = 1 << 22
"""Bytes of a matrix from which its product with a vector runs in chunks."""
_FEW_CHUNKS, _FEWEST_ROWS = 4, 64


def split_of(item: LibraryCall) -> tuple[str, int, int] | None:
    """Return the axis along which matrix products are split, its size, and the number of chunks; None for no split."""
    if item.routine != "matmul" or not HAS_THREADS or not runs_in_one_thread():
        return None
    how: Product = item.options
    bytes_ = math.prod(how.stack) * how.m * how.k * how.n * item.dtype.itemsize
    if bytes_ < (_WORTH_CHUNKS_OF_MATRIX if min(how.m, how.n) == 1 else _WORTH_CHUNKS_OF_PRODUCTS):
        return None
    most = _FEW_CHUNKS if bytes_ < _WORTH_MANY_CHUNKS else MOST_CHUNKS
    cuts = [(axis, size, min(most, size // _FEWEST_ROWS)) for axis, size in (("rows", how.m), ("columns", how.n))]
    cuts += [("stack", size, min(MOST_CHUNKS, size)) for size in how.stack[:1]]
    cut = max(cuts, key=lambda each: each[2])
    return cut if cut[2] > 1 else None


class _Run:
    """The call that executes all chunks.

    Args:
        count: the number of chunks.
        threads: the number of threads.
        linkage: gives the address of the thread pool's function.
    """

    def __init__(self, count: int, threads: int, linkage: Linkage) -> None:
        self._count, self._workers = count, min(threads, count) - 1
        self._run_chunks = linkage.function("run_chunks", run_chunks()) if self._workers else None

    def append(self, code: Builder, job: str, given: Sequence[Value]) -> None:
        """Append the call: the named function is called for each chunk, with the given addresses stored in memory."""
        shared = code.alloca(Type.PTR, len(given))
        for place, each in enumerate(given):
            code.store(each, code.address(shared, Type.PTR, integer(place)))
        if self._run_chunks is None:
            with code.loop(self._count) as chunk:
                code.do(Op.CALL, None, shared, chunk, attribute=_local_callee(job))
        else:
            code.call_at(Symbol(self._run_chunks), Symbol(f"@{job}"), shared, integer(self._workers))


def _shared(code: Builder, count: int) -> list[Value]:
    """Return the addresses passed to a job in memory."""
    return [code.load(Type.PTR, code.address(_SHARED, Type.PTR, integer(place))) for place in range(count)]


def _chunk_bounds(code: Builder, size: int, count: int) -> list[Value]:
    """Return the bounds of a chunk of an axis."""
    low = code.mul(_NUMBER, integer(size))
    return [code.binary(Op.SDIV, each, integer(count)) for each in (low, code.add(low, integer(size)))]


def _definitions(functions: Mapping[str, str]) -> str:
    """Return function definitions as LLVM IR, from their heads and bodies."""
    return "\n".join(f"define {head} #0 {{\n{body}\n}}" for head, body in functions.items())


def _local_callee(name: str) -> Callee:
    return Callee(f"@{name}", is_declared=False)


_SHARED, _NUMBER = Parameter("shared"), Parameter("number", type=Type.I64)
"""Parameters of a job: the array of addresses (arrays, then partial results), and the number of the chunk."""
