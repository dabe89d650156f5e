"""Runs bodies in the loop language in Python, number by number: what they mean, without LLVM."""

from __future__ import annotations

import math

import numpy as np

from fgrad.native.ir import Constant, If, Instruction, Op, Type, While

DTYPES = {
    Type.F64: np.float64, Type.F32: np.float32, Type.I64: np.int64, Type.I32: np.int32, Type.I16: np.int16,
    Type.I8: np.int8, Type.I1: np.bool_,
}  # fmt: skip

ARITHMETIC = {
    Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply, Op.FADD: np.add, Op.FSUB: np.subtract,
    Op.FMUL: np.multiply, Op.FDIV: np.divide, Op.FREM: np.fmod, Op.AND: np.bitwise_and, Op.OR: np.bitwise_or,
    Op.XOR: np.bitwise_xor, Op.FNEG: np.negative,
    Op.SDIV: lambda a, b: np.trunc(a / b).astype(a.dtype), Op.SREM: np.fmod,
}  # fmt: skip
RELATIONS = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
FUNCTIONS = {
    "fabs": np.fabs, "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "exp": np.exp, "copysign": np.copysign,
    "maximum": np.maximum, "minimum": np.minimum, "smax": np.maximum, "smin": np.minimum,
}  # fmt: skip
REDUCTIONS = {
    "fadd": np.add, "add": np.add, "fmul": np.multiply, "mul": np.multiply, "and": np.bitwise_and,
    "or": np.bitwise_or, "fmaximum": np.maximum, "fminimum": np.minimum, "smax": np.maximum, "smin": np.minimum,
}  # fmt: skip


class Interpreter:
    """Runs a body.

    Args:
        given: arrays by parameter: what the parameter is the address of. They are written into.
    """

    def __init__(self, given):
        self.values = {parameter: (array.reshape(-1).view(np.uint8), 0) for parameter, array in given.items()}

    def run(self, body):
        for item in body:
            if isinstance(item, Instruction):
                self._instruction(item)
            elif isinstance(item, If):
                if self.of(item.condition):
                    self.run(item.body)
            elif isinstance(item, While):
                self._while(item)
            else:
                self._loop(item)

    def of(self, value):
        if isinstance(value, Constant):
            numbers = np.array(value.numbers, DTYPES[value.type])
            return numbers if value.lanes > 1 else numbers[0]
        return self.values[value]

    def _loop(self, loop):
        at, stop = self.of(loop.start), self.of(loop.stop)
        assert at < stop or loop.may_be_empty
        now = [self.of(each.start) for each in loop.carried]
        while at < stop:
            self.values[loop.variable] = at
            self.values.update(zip(loop.carried, now, strict=True))
            self.run(loop.body)
            now = [self.of(each.next) for each in loop.carried]
            at = at + loop.step
        self.values.update(zip((each.after for each in loop.carried), now, strict=True))

    def _while(self, loop):
        at, now = np.int64(0), [self.of(each.start) for each in loop.carried]
        while True:
            self.values[loop.variable] = at
            self.values.update(zip(loop.carried, now, strict=True))
            self.run(loop.head)
            if not self.of(loop.condition):
                break
            self.run(loop.body)
            now, at = [self.of(each.next) for each in loop.carried], at + 1
        self.values.update(zip((each.after for each in loop.carried), now, strict=True))

    def _instruction(self, item):
        if item.op is Op.IS:
            self.values[item.args[0]] = self.of(item.args[1])
            return
        args = [self.of(each) for each in item.args]
        if item.op is Op.STORE:
            self._store(item, *args)
        else:
            with np.errstate(all="ignore"):
                self.values[item] = self._result(item, args)

    def _result(self, item, args):
        op = item.op
        if op in ARITHMETIC:
            return ARITHMETIC[op](*args)
        if op in (Op.ICMP, Op.FCMP):
            return self._compared(item.attribute, *args)
        if op is Op.SELECT:
            return np.where(*args)[()]
        if op is Op.ADDRESS:
            (memory, at), index = args
            return memory, at + int(index) * size_of(item.attribute)
        if op is Op.LOAD:
            return self._loaded(item, *args[0])
        if op is Op.CALL:
            name = item.attribute.name.removeprefix("@").removeprefix("llvm.").split(".")[0]
            return FUNCTIONS[name.rpartition("_")[2]](*args)
        if op is Op.ALLOCA:
            type_, count = item.attribute
            return np.zeros(count * size_of(type_), np.uint8), 0
        if op is Op.SPLAT:
            return np.full(item.lanes, args[0])
        if op is Op.EXTRACT:
            return args[0][item.attribute]
        if op is Op.INSERT:
            whole = args[0].copy() if len(args) > 1 else np.zeros(item.lanes, DTYPES[item.type])
            whole[item.attribute] = args[-1]
            return whole
        if op is Op.REDUCE:
            found = REDUCTIONS[item.attribute].reduce(args[-1], dtype=args[-1].dtype)
            return REDUCTIONS[item.attribute](args[0], found) if len(args) > 1 else found
        return args[0].astype(DTYPES[item.type])  # a conversion

    def _compared(self, predicate, a, b):
        if predicate in ("ord", "uno"):
            is_nan = np.isnan(a) | np.isnan(b)
            return ~is_nan if predicate == "ord" else is_nan
        if predicate.startswith("u") and a.dtype.kind == "i":
            a, b = (np.asarray(x).view(f"u{x.dtype.itemsize}") for x in (a, b))
        return RELATIONS[predicate if predicate in RELATIONS else predicate[1:]](a, b)

    def _loaded(self, item, memory, at):
        dtype = np.dtype(DTYPES[item.type])
        assert at >= 0
        assert at + dtype.itemsize * item.lanes <= memory.size
        found = memory[at : at + dtype.itemsize * item.lanes].view(dtype)
        return found.copy() if item.lanes > 1 else found[0]

    def _store(self, item, value, address):
        memory, at = address
        value = np.atleast_1d(np.asarray(value, DTYPES[item.args[0].type]))
        assert at >= 0
        assert at + value.nbytes <= memory.size
        memory[at : at + value.nbytes] = value.view(np.uint8)


def size_of(type_):
    return math.ceil(type_.bits / 8)
