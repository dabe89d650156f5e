"""Threads of the process that help with the parts of large nests.

address_with_helpers(count)    the address of `run_parts`, once that many threads wait for work

`run_parts(job, shared, helpers)` calls `job(shared, part)` for each of `MOST_PARTS` parts, each once, and returns when
all are done. The thread that calls it takes parts as the helpers do, so it never waits for one that has not begun:
where other work keeps the other cores busy, it runs all of them itself. One nest at a time has helpers. Nests of
further user threads run alone, and so do those in a child of a fork until it compiles a program.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import functools
import os
import signal
from collections import defaultdict
from typing import Any

import numpy as np

from fgrad.native.ir import FALSE, Builder, Callee, Item, Op, Parameter, Symbol, Type, Value, Variable, While, integer
from fgrad.native.linkage import IN_PROCESS
from fgrad.native.llvm_text import Used, printed, taken
from fgrad.native.machine import Machine
from fgrad.native.nests import MOST_PARTS

_LINE = 8
"""Integers in a line of the cache: what several threads change lies in lines of its own."""
_BUSY, _BEGUN, _DONE, _JOB, _SHARED, _READ, _WRITE, _SIZE = (_LINE * place for place in range(8))
"""Where the memory holds: whether a nest has the helpers, the numbers of parts that have been begun and are done, the
function and its argument, and the two ends of the pipe through which helpers are woken."""


class _Pool:
    """The helpers, and the code that they run. There is one, which lives as long as the process."""

    def __init__(self) -> None:
        self._locks: dict[int, Any] = defaultdict(_thread.allocate_lock)  # a child of a fork has one of its own
        self._process, self._helpers = 0, 0
        self._all = np.zeros(_SIZE + _LINE, np.int64)
        self._memory = self._all[-self._all.ctypes.data // self._all.itemsize % _LINE :][:_SIZE]
        self._module = Machine.this().compiled(_text(Symbol(IN_PROCESS.constant(self._memory))))
        self.run_parts = self._module.address("fgrad_run_parts")
        self._help = ctypes.CFUNCTYPE(None)(self._module.address("fgrad_help"))

    def grow(self, count: int) -> None:
        """Start helpers until there are `count`, or as many as the system allows."""
        process = os.getpid()
        with self._locks[process], contextlib.suppress(RuntimeError, OSError):  # without helpers all is done, too
            if self._process != process:
                self._begin()
                self._process, self._helpers = process, 0
            while self._helpers < count:
                _thread.start_new_thread(self._run, ())
                self._helpers += 1

    def _begin(self) -> None:
        self._memory[:] = 0
        self._memory[_BEGUN], self._memory[_WRITE] = MOST_PARTS, -1
        self._memory[_READ], self._memory[_WRITE] = os.pipe()
        os.set_blocking(int(self._memory[_WRITE]), False)

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are for the user's threads
        self._help()


@functools.cache
def _pool() -> _Pool:
    return _Pool()


def address_with_helpers(count: int) -> int:
    """Return where `run_parts` begins, after making sure that there are helpers."""
    pool = _pool()
    pool.grow(count)
    return pool.run_parts


# The code

_GIVEN = Parameter("job"), Parameter("shared"), Parameter("helpers", type=Type.I64)


def _text(memory: Value) -> str:
    """Return the functions in LLVM's language."""
    machine, used = Machine.this(), Used()
    texts = []
    for head, body in {
        "void @fgrad_take()": _take(memory),
        "void @fgrad_help()": _help(memory),
        f"void @fgrad_run_parts({taken(_GIVEN)})": _run_parts(memory),
    }.items():
        text, needed = printed(body)
        used.update(needed)
        texts.append(f"define {head} #0 {{\n{text}\n}}")
    return "\n".join([*texts, machine.declarations(used), machine.attributes()])


def _take(memory: Value) -> list[Item]:
    """Return what runs parts that no thread has begun, until there are none."""
    code = Builder()
    with code.loop(MOST_PARTS):
        part = code.atomic("add", _at(code, memory, _BEGUN), integer(1))
        with code.when(code.compare("slt", part, integer(MOST_PARTS))):
            job, shared = (code.load(Type.PTR, _at(code, memory, place)) for place in (_JOB, _SHARED))
            code.call_at(job, shared, part)
            code.atomic("add", _at(code, memory, _DONE), integer(1))
    return code.body


def _help(memory: Value) -> list[Item]:
    """Return what a helper does: wait until it is woken, and take parts."""
    code, loop = Builder(), While(Variable(), [], FALSE, [], [])
    byte = code.room(Type.I64)
    with code.within(loop.head):
        source = code.load(Type.I32, _at(code, memory, _READ))
        read = code.call("read", source, byte, integer(1), result=Type.I64)
        loop.condition = code.compare("eq", read, integer(1))
    with code.within(loop.body):
        _call_take(code)
    code.body.append(loop)
    return code.body


def _run_parts(memory: Value) -> list[Item]:
    """Return what runs all parts: with helpers, unless another nest has them."""
    code, (job, shared, helpers) = Builder(), _GIVEN
    is_free = code.compare("eq", code.atomic("xchg", _at(code, memory, _BUSY), integer(1)), integer(0))
    with code.when(code.negated(is_free)), code.loop(MOST_PARTS) as part:
        code.call_at(job, shared, part)
    with code.when(is_free):
        code.store(job, _at(code, memory, _JOB))
        code.store(shared, _at(code, memory, _SHARED))
        code.atomic("xchg", _at(code, memory, _DONE), integer(0))
        code.atomic("xchg", _at(code, memory, _BEGUN), integer(0))
        target = code.load(Type.I32, _at(code, memory, _WRITE))
        code.call("write", target, memory, helpers, result=Type.I64)  # a full pipe wakes enough of them
        _call_take(code)
        loop = While(Variable(), [], FALSE, [], [])
        with code.within(loop.head):
            done = code.atomic("add", _at(code, memory, _DONE), integer(0))
            loop.condition = code.compare("slt", done, integer(MOST_PARTS))
        with code.within(loop.body):
            code.call("sched_yield", result=Type.I32)
        code.body.append(loop)
        code.atomic("xchg", _at(code, memory, _BUSY), integer(0))
    return code.body


def _at(code: Builder, memory: Value, place: int) -> Value:
    return code.address(memory, Type.I64, integer(place))


def _call_take(code: Builder) -> None:
    code.do(Op.CALL, None, attribute=Callee("@fgrad_take", is_declared=False))
