"""Thread pool for the chunks of large nests.

run_chunks()    the address of `run_chunks(job, shared, workers)`

That function calls `job(shared, chunk)` once for each of `MOST_CHUNKS` chunks, and returns when all are done. The
calling thread takes chunks like the workers, so it never waits for a chunk that has not begun: where other work
occupies the cores, it runs all chunks itself. One nest at a time has workers; nests of further user threads run alone.
A worker that has found no chunk for a while sleeps; waking it takes longer than many nests run.

Workers start when they are first needed, and end before a fork: Python warns of a fork of a process with threads.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import time
from collections.abc import Iterator

import numpy as np

from fgrad.native.ir import (
    FALSE,
    NULL,
    Builder,
    Callee,
    Item,
    Op,
    Parameter,
    Symbol,
    Type,
    Value,
    Variable,
    While,
    integer,
)  # fmt: skip
from fgrad.native.linkage import IN_PROCESS
from fgrad.native.llvm_text import Used, parameter_list, printed
from fgrad.native.machine import Machine
from fgrad.native.nests import MOST_CHUNKS

_LINE = 8
"""Integers in a cache line: variables written by several threads lie in separate lines."""
(_BUSY, _BEGUN, _DONE, _WANTED, _ASLEEP, _JOB, _SHARED, _READ, _WRITE, _WORKERS, _HANDLES) = range(0, 11 * _LINE, _LINE)
_SIZE = _HANDLES + MOST_CHUNKS
"""Offsets of the shared variables: whether a nest occupies the workers; the numbers of chunks begun and done; the
number of workers that the nest may still get; the number of sleeping workers; the job and its argument; the two ends
of the pipe that wakes workers; their number and handles."""
_AWAKE = 100_000
"""Nanoseconds without chunks after which a worker sleeps.

One that shares a core with other work should sleep soon: when woken, it is scheduled on a free core."""


class _Pool:
    """The workers and their code: a singleton that lives as long as the process."""

    def __init__(self) -> None:
        self._all = np.zeros(_SIZE + _LINE, np.int64)
        self._memory = self._all[-self._all.ctypes.data // self._all.itemsize % _LINE :][:_SIZE]
        self._memory[_BEGUN] = MOST_CHUNKS
        self._module = Machine.this().compiled(_text(Symbol(IN_PROCESS.constant(self._memory))))
        self.run_chunks = self._module.address("fgrad_run_chunks")
        self._end = ctypes.CFUNCTYPE(None)(self._module.address("fgrad_end"))
        self._resume()
        os.register_at_fork(before=self._end, after_in_parent=self._resume, after_in_child=self._resume)

    def _resume(self) -> None:
        """Allow nests to start workers; none exists yet."""
        try:
            ends = os.pipe()
            os.set_blocking(ends[1], False)
        except OSError:  # too many open files: workers end at once, and callers run all chunks
            ends = (-1, -1)
        self._memory[_READ], self._memory[_WRITE] = ends
        self._memory[_ASLEEP] = 0
        self._memory[_BUSY] = 0


@functools.cache
def _pool() -> _Pool:
    return _Pool()


def run_chunks() -> int:
    """Return the address of `run_chunks`."""
    return _pool().run_chunks


# The code

_SIGNALS = 16
"""Integers in a signal set, on any system."""
_GIVEN = Parameter("job"), Parameter("shared"), Parameter("workers", type=Type.I64)


def _text(memory: Value) -> str:
    """Return the functions as LLVM IR."""
    machine, used = Machine.this(), Used()
    texts = []
    for head, body, result in (
        ("void @fgrad_take_chunks()", _take_chunks(memory), None),
        ("ptr @fgrad_work(ptr %unused)", _work(memory), NULL),
        (f"void @fgrad_run_chunks({parameter_list(_GIVEN)})", _run_chunks(memory), None),
        ("void @fgrad_end()", _end(memory), None),
    ):
        text, needed = printed(body, result)
        used.update(needed)
        texts.append(f"define {head} #0 {{\n{text}\n}}")
    return "\n".join([*texts, machine.declarations(used), machine.attributes()])


def _take_chunks(memory: Value) -> list[Item]:
    """Return the function that runs chunks that no thread has begun, until there are none."""
    code = Builder()
    with code.loop(MOST_CHUNKS):
        chunk = code.atomic("add", _at(code, memory, _BEGUN), integer(1))
        with code.when(code.compare("slt", chunk, integer(MOST_CHUNKS))):
            job, shared = (code.load(Type.PTR, _at(code, memory, place)) for place in (_JOB, _SHARED))
            code.call_at(job, shared, chunk)
            code.atomic("add", _at(code, memory, _DONE), integer(1))
    return code.body


def _work(memory: Value) -> list[Item]:
    """Return the main function of a worker: run chunks, and sleep until woken. The user's threads handle signals."""
    code, loop = Builder(), While(Variable(), [], FALSE, [], [])
    byte, signals, times = code.alloca(Type.I64), code.alloca(Type.I64, _SIGNALS), code.alloca(Type.I64, 3)
    code.call("sigfillset", signals, result=Type.I32)
    code.call("pthread_sigmask", integer(signal.SIG_BLOCK, Type.I32), signals, NULL, result=Type.I32)
    source = code.load(Type.I32, _at(code, memory, _READ))
    with code.within(loop.head):
        _look_for_chunks(code, memory, times)
        code.atomic("add", _at(code, memory, _ASLEEP), integer(1))
        read = code.call("read", source, byte, integer(1), result=Type.I64)
        loop.condition = code.compare("eq", read, integer(1))
    code.body.append(loop)
    return code.body


def _look_for_chunks(code: Builder, memory: Value, times: Value) -> None:
    """Append a loop that runs chunks until there have been none for a while; `times` is scratch memory of the clock."""
    start = code.address(times, Type.I64, integer(2))
    code.store(_now(code, times), start)
    with _waiting(code) as loop:
        waited = code.sub(_now(code, times), code.load(Type.I64, start))
        loop.condition = code.compare("slt", waited, integer(_AWAKE))
        begun = code.atomic("add", _at(code, memory, _BEGUN), integer(0))
        with code.when(code.compare("slt", begun, integer(MOST_CHUNKS))):
            wanted = code.atomic("add", _at(code, memory, _WANTED), integer(-1))
            with code.when(code.compare("sgt", wanted, integer(0))):
                _call_take_chunks(code)
                code.store(_now(code, times), start)


def _now(code: Builder, times: Value) -> Value:
    """Append a read of the clock, in nanoseconds."""
    code.call("clock_gettime", integer(time.CLOCK_MONOTONIC, Type.I32), times, result=Type.I32)
    seconds, rest = (code.load(Type.I64, code.address(times, Type.I64, integer(place))) for place in (0, 1))
    return code.add(code.mul(seconds, integer(1_000_000_000)), rest)


def _run_chunks(memory: Value) -> list[Item]:
    """Return the function that runs all chunks: with workers, unless another nest has them."""
    code, (job, shared, workers) = Builder(), _GIVEN
    is_free = code.compare("eq", _exchange(code, memory, _BUSY, 1), integer(0))
    with code.when(code.negated(is_free)), code.loop(MOST_CHUNKS) as chunk:
        code.call_at(job, shared, chunk)
    with code.when(is_free):
        _start_workers(code, memory, workers)
        code.store(job, _at(code, memory, _JOB))
        code.store(shared, _at(code, memory, _SHARED))
        _exchange(code, memory, _DONE, 0)
        code.atomic("xchg", _at(code, memory, _WANTED), workers)
        _exchange(code, memory, _BEGUN, 0)
        _wake(code, memory, workers)
        _call_take_chunks(code)
        with _waiting(code) as loop:
            done = code.atomic("add", _at(code, memory, _DONE), integer(0))
            loop.condition = code.compare("slt", done, integer(MOST_CHUNKS))
        _exchange(code, memory, _BUSY, 0)
    return code.body


def _wake(code: Builder, memory: Value, workers: Value) -> None:
    """Append the wake-up of sleeping workers, as many as are requested."""
    asleep = code.load(Type.I64, _at(code, memory, _ASLEEP))
    woken = code.select(code.compare("slt", asleep, workers), asleep, workers)
    with code.when(code.compare("sgt", woken, integer(0))):
        code.atomic("add", _at(code, memory, _ASLEEP), code.sub(integer(0), woken))
        target = code.load(Type.I32, _at(code, memory, _WRITE))
        code.call("write", target, memory, woken, result=Type.I64)


def _start_workers(code: Builder, memory: Value, workers: Value) -> None:
    """Append the start of missing workers, until one cannot be started."""
    with code.loop(MOST_CHUNKS - 1) as place:
        is_next = code.compare("eq", code.load(Type.I64, _at(code, memory, _WORKERS)), place)
        with code.when(code.both(is_next, code.compare("slt", place, workers))):
            begin = Symbol("@fgrad_work")
            handle = code.address(_at(code, memory, _HANDLES), Type.I64, place)
            state = code.call("pthread_create", handle, NULL, begin, NULL, result=Type.I32)
            with code.when(code.compare("eq", state, integer(0, Type.I32))):
                code.store(code.add(place, integer(1)), _at(code, memory, _WORKERS))


def _end(memory: Value) -> list[Item]:
    """Return the function that joins all workers; nests run alone until `_BUSY` is 0 again."""
    code = Builder()
    with _waiting(code) as loop:
        loop.condition = code.compare("ne", _exchange(code, memory, _BUSY, 1), integer(0))
    code.call("close", code.load(Type.I32, _at(code, memory, _WRITE)), result=Type.I32)
    workers, handles = code.load(Type.I64, _at(code, memory, _WORKERS)), _at(code, memory, _HANDLES)
    with code.loop(MOST_CHUNKS - 1) as place:
        is_there = code.compare("slt", place, workers)
        with code.when(is_there):
            handle = code.load(Type.I64, code.address(handles, Type.I64, place))
            code.call("pthread_join", handle, NULL, result=Type.I32)
    code.store(integer(0), _at(code, memory, _WORKERS))
    code.call("close", code.load(Type.I32, _at(code, memory, _READ)), result=Type.I32)
    return code.body


@contextlib.contextmanager
def _waiting(code: Builder) -> Iterator[While]:
    """Append a spin loop that yields the core; its head is appended in the `with` block."""
    loop = While(Variable(), [], FALSE, [], [])
    with code.within(loop.head):
        yield loop
    with code.within(loop.body):
        code.call("sched_yield", result=Type.I32)
    code.body.append(loop)


def _exchange(code: Builder, memory: Value, place: int, number: int) -> Value:
    return code.atomic("xchg", _at(code, memory, place), integer(number))


def _at(code: Builder, memory: Value, place: int) -> Value:
    return code.address(memory, Type.I64, integer(place))


def _call_take_chunks(code: Builder) -> None:
    code.do(Op.CALL, None, attribute=Callee("@fgrad_take_chunks", is_declared=False))
