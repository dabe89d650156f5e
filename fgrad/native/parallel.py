"""Large nests and products of matrices on several cores, in parts, on threads of the operating system.

A part of a nest is some iterations of its outermost loop; of products, some of the stack, or some rows or columns.

The threads are those of `pool`. The parts are the same for any number of threads, and what is added up along the loop
is added up in their order, so the result is the same to the last bit.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import cast

from fgrad.native.body import Body
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
from fgrad.native.llvm_text import Used, printed, taken
from fgrad.native.nests import MOST_PARTS
from fgrad.native.nodes import LibraryCall, Reduction
from fgrad.native.pool import run_parts
from fgrad.native.routines import Product, Share, write_products
from fgrad.native.scalars import literal, loaded, scalar_of, store

_WORTH_PARTS = 1_000_000
"""Instructions from which on a nest is worth to be parted: some 40 us, several times what the parts cost."""
_MOST_MEMORY = 1 << 22

CAN_BE_PARTED = sys.platform.startswith(("linux", "darwin"))
"""Whether there are the threads of POSIX."""


def default_threads() -> int:
    """Return on how many cores native code runs: what the environment says, or as many as there are."""
    for name in ("FGRAD_NUM_THREADS", "OMP_NUM_THREADS"):
        given = os.environ.get(name, "")
        if given.isdigit() and int(given):
            return int(given)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def is_worth_parts(function: NestFunction) -> bool:
    """Return whether a nest is to run in parts."""
    memory = MOST_PARTS * sum(map(_bytes, function.totals))
    return CAN_BE_PARTED and function.iterations > 1 and function.work >= _WORTH_PARTS and memory <= _MOST_MEMORY


def _bytes(total: Reduction) -> int:
    """Return how much memory a part needs for what it adds up, so that no two share a line of the cache."""
    return -(-total.size * total.dtype.itemsize // 64) * 64


class Parts:
    """The functions that run a nest in parts.

    Args:
        function: runs a part; see `emission.CHUNK`.
        fills: the body of a function that fills arrays before.
        parameters: the memory that it takes.
        places: which of these is the memory of each total.
        threads: how many run at once.
        widths: how many elements are computed at once.
        linkage: how the function of the pool is reached.

    Attributes:
        used: the functions of libraries that they call.
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
        self._count, self._widths = min(MOST_PARTS, self._units), widths
        self._run = _Run(self._count, threads, linkage)
        self._stride = sum(map(_bytes, function.totals))
        self._offsets = [0, *accumulate(map(_bytes, function.totals))][:-1]

        self._fills, self._part = printed(fills), printed(function.body)
        self.used: Used = {**self._fills[1], **self._part[1], **printed(self._whole(""))[1]}

    def text(self, name: str) -> str:
        """Return the functions; that of this name runs all parts."""
        given = taken(self._parameters)
        functions = {
            f"internal void @{name}_fill({given}) noinline": self._fills[0],
            f"internal void @{name}_part({given}, {taken(CHUNK)}) noinline": self._part[0],
            f"internal void @{name}_job({taken([_SHARED, _NUMBER])})": printed(self._job(name))[0],
            f"hidden void @{name}({given}) noinline": printed(self._whole(name))[0],
        }
        return _defined(functions)

    def _job(self, name: str) -> list[Item]:
        """Return what runs one part, of the arrays whose addresses lie in `_SHARED`."""
        code, function = Builder(), self._function
        *arrays, partial = _shared(code, len(self._parameters) + 1)
        with code.when(code.compare("slt", _NUMBER, integer(self._count))):
            ends = [code.mul(each, integer(function.chunk_multiple)) for each in _ends(code, self._units, self._count)]
            base = code.address(partial, Type.I8, code.mul(_NUMBER, integer(self._stride)))
            given = list(arrays)
            for place, offset in zip(self._places, self._offsets, strict=True):
                given[place] = code.address(base, Type.I8, integer(offset))
            code.do(Op.CALL, None, *given, _NUMBER, *ends, attribute=_own(f"{name}_part"))
        return code.body

    def _whole(self, name: str) -> list[Item]:
        """Return the function that runs all parts."""
        code = Builder()
        code.do(Op.CALL, None, *self._parameters, attribute=_own(f"{name}_fill"))
        partial: Value = NULL
        if self._stride:
            partial = code.call("malloc", integer(self._stride * self._count), result=Type.PTR)
        self._run.append(code, f"{name}_job", [*self._parameters, partial])
        for place, total, offset in zip(self._places, self._function.totals, self._offsets, strict=True):
            add_up = self._add_up_number if total.size == 1 else self._add_up_array
            add_up(code, self._parameters[place], partial, total, offset)
        if self._stride:
            code.do(Op.CALL, None, partial, attribute=Callee("@free"))
        return code.body

    def _add_up_number(self, code: Builder, target: Value, partial: Value, total: Reduction, offset: int) -> None:
        """Append a loop over the parts, which adds up a single number."""
        kind = scalar_of(total.dtype)
        sum_ = Carried(literal(identity(total.kind, total.dtype), total.dtype))
        with code.loop(self._count) as part:
            place = code.add(code.mul(part, integer(self._stride)), integer(offset))
            value = loaded(code, kind, code.address(partial, Type.I8, place))
            sum_.next = append_accumulation(code, total.kind, kind, sum_, value, in_order=True)
        cast(Loop, code.body[-1]).carried.append(sum_)
        store(code, kind, sum_.after, target)

    def _add_up_array(self, code: Builder, target: Value, partial: Value, total: Reduction, offset: int) -> None:
        """Append a loop over the elements of an array, each of which is added up at once."""
        kind = scalar_of(total.dtype)
        parts = [code.address(partial, Type.I8, integer(part * self._stride + offset)) for part in range(self._count)]
        loop = Loop(Variable(), integer(0), integer(total.size))
        with code.within(loop.body):
            first, *others = [loaded(code, kind, code.address(base, kind.stored, loop.variable)) for base in parts]
            for value in others:
                first = append_accumulation(code, total.kind, kind, first, value, in_order=True)
            store(code, kind, first, code.address(target, kind.stored, loop.variable))
        append_innermost(code, loop, self._widths, total.size)


class ProductParts:
    """The functions that compute products of matrices in parts.

    Args:
        item: the products.
        cut: which axis is parted, how long it is, and in how many parts.
        parameters: the memory that the functions take.
        arrays: the two factors and the result among these.
        threads: how many run at once.
        linkage: how functions are reached.

    Attributes:
        used: the functions of libraries that they call.
    """

    def __init__(
        self,
        item: LibraryCall,
        cut: tuple[str, int, int],
        parameters: Iterable[Parameter],
        arrays: Sequence[Value],
        threads: int,
        linkage: Linkage,
    ) -> None:
        self._parameters = list(parameters)
        axis, size, count = cut
        self._run = _Run(count, threads, linkage)
        job = Body(item.dtype, linkage)
        given: dict[Value, Value] = dict(zip(self._parameters, _shared(job, len(self._parameters)), strict=True))
        with job.when(job.compare("slt", _NUMBER, integer(count))):
            low, high = _ends(job, size, count)
            write_products(job, item.options, [given[x] for x in arrays], Share(axis, low, job.sub(high, low)))
        self._job, self.used = job.printed()

    def text(self, name: str) -> str:
        """Return the functions; that of this name runs all parts."""
        code = Builder()
        self._run.append(code, f"{name}_job", self._parameters)
        functions = {
            f"internal void @{name}_job({taken([_SHARED, _NUMBER])})": self._job,
            f"hidden void @{name}({taken(self._parameters)}) noinline": printed(code.body)[0],
        }
        return _defined(functions)


_WORTH_PARTS_OF_PRODUCTS, _WORTH_MANY_PARTS = 1 << 22, 1 << 33
"""Bytes of the numbers that are multiplied, counted as often as they are, from which on a product of matrices is worth
parts, some 30 us, and more than a few of them, which take longer together: BLAS rearranges a factor for each."""
_WORTH_PARTS_OF_MATRIX = 1 << 22
"""Bytes of a matrix from which on its product with a vector is."""
_FEW_PARTS, _FEWEST_ROWS = 4, 64


def cut_of(item: LibraryCall) -> tuple[str, int, int] | None:
    """Return along which axis products are computed in parts, how long it is, and in how many; None: in one."""
    if item.routine != "matmul" or not CAN_BE_PARTED or not runs_in_one_thread():
        return None
    how: Product = item.options
    bytes_ = math.prod(how.stack) * how.m * how.k * how.n * item.dtype.itemsize
    if bytes_ < (_WORTH_PARTS_OF_MATRIX if min(how.m, how.n) == 1 else _WORTH_PARTS_OF_PRODUCTS):
        return None
    most = _FEW_PARTS if bytes_ < _WORTH_MANY_PARTS else MOST_PARTS
    cuts = [(axis, size, min(most, size // _FEWEST_ROWS)) for axis, size in (("rows", how.m), ("columns", how.n))]
    cuts += [("stack", size, min(MOST_PARTS, size)) for size in how.stack[:1]]
    cut = max(cuts, key=lambda each: each[2])
    return cut if cut[2] > 1 else None


class _Run:
    """The run of all parts.

    Args:
        count: how many there are.
        threads: how many run at once.
        linkage: how the function of the pool is reached.
    """

    def __init__(self, count: int, threads: int, linkage: Linkage) -> None:
        self._count, self._helpers = count, min(threads, count) - 1
        self._run_parts = linkage.function("run_parts", run_parts()) if self._helpers else None

    def append(self, code: Builder, job: str, given: Sequence[Value]) -> None:
        """Append it: the function of a name is called for each part, and finds addresses in memory."""
        shared = code.room(Type.PTR, len(given))
        for place, each in enumerate(given):
            code.store(each, code.address(shared, Type.PTR, integer(place)))
        if self._run_parts is None:
            with code.loop(self._count) as part:
                code.do(Op.CALL, None, shared, part, attribute=_own(job))
        else:
            code.call_at(Symbol(self._run_parts), Symbol(f"@{job}"), shared, integer(self._helpers))


def _shared(code: Builder, count: int) -> list[Value]:
    """Return the addresses that a job finds in memory."""
    return [code.load(Type.PTR, code.address(_SHARED, Type.PTR, integer(place))) for place in range(count)]


def _ends(code: Builder, size: int, count: int) -> list[Value]:
    """Return where a part of an axis begins and ends."""
    low = code.mul(_NUMBER, integer(size))
    return [code.binary(Op.SDIV, each, integer(count)) for each in (low, code.add(low, integer(size)))]


def _defined(functions: Mapping[str, str]) -> str:
    """Return functions in LLVM's language, by their heads and bodies."""
    return "\n".join(f"define {head} #0 {{\n{body}\n}}" for head, body in functions.items())


def _own(name: str) -> Callee:
    return Callee(f"@{name}", is_declared=False)


_SHARED, _NUMBER = Parameter("shared"), Parameter("number", type=Type.I64)
"""What a part takes: where the addresses of arrays and of partial sums lie, and the number of the part."""
