"""The loop IR printed as LLVM IR.

printed(body)      the body of a function, and the functions that it calls
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fgrad.native.ir import (
    BINARY,
    CASTS,
    COMPARISONS,
    Constant,
    If,
    Instruction,
    Item,
    Loop,
    Op,
    Parameter,
    Symbol,
    Value,
    While,
)
from fgrad.native.verifier import verify

Used = dict[str, tuple[str, ...]]
"""Called library functions: result type and argument types, by name."""


def printed(body: Sequence[Item], result: Value | None = None) -> tuple[str, Used]:
    """Return the body of a function as LLVM IR, and the functions that it calls.

    Args:
        body: the items.
        result: the return value; None for a function without a result.

    Raises:
        VerificationError: the body is not valid loop IR.
    """
    verify(body)
    printer = _Printer()
    printer.body(body)
    returned = "void" if result is None else printer.typed(result)
    return "\n".join(["entry:", *printer.allocas, *printer.lines, f"  ret {returned}"]), printer.used


def parameter_list(parameters: Iterable[Parameter]) -> str:
    """Return a parameter list, in LLVM's syntax."""
    return ", ".join(f"{each.type}{' noalias' if each.is_noalias else ''} %{each.name}" for each in parameters)


class _Printer:
    """Prints a function.

    Attributes:
        lines: the instructions.
        allocas: the stack allocations, which are in the entry block.
        label: the current basic block.
        used: the called functions.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.label = "entry"
        self.used: Used = {}
        self._names: dict[Value, str] = {}
        self._blocks = 0

    def body(self, items: Sequence[Item]) -> None:
        for item in items:
            if isinstance(item, Instruction):
                self._instruction(item)
            elif isinstance(item, If):
                self._condition(item)
            elif isinstance(item, While):
                self._while(item)
            else:
                self._loop(item)

    # Values

    def _name(self, value: Value) -> str:
        """Return a value as an operand."""
        if isinstance(value, Constant):
            return value.text
        if isinstance(value, Parameter):
            return f"%{value.name}"
        if isinstance(value, Symbol):
            return value.name
        return self._names[value]

    def _new(self, value: Value | None = None) -> str:
        """Return a new name, and assign it to a value if one is given."""
        name = f"%t{len(self._names)}"
        self._names[Value(None) if value is None else value] = name
        return name

    def typed(self, value: Value) -> str:
        return f"{kind_of(value)} {self._name(value)}"

    # Instructions

    def _instruction(self, item: Instruction) -> None:
        if item.op is Op.IS:
            result, value = item.args
            self._names[result] = self._name(value)
            return
        text = _WRITERS[item.op](self, item)
        if item.type is None:
            self.lines.append(f"  {text}")
            return
        lines = self.allocas if item.op is Op.ALLOCA else self.lines
        lines.append(f"  {self._new(item)} = {text}")

    def _of_one_type(self, item: Instruction) -> str:
        """Return operation, flags, type and operands, for operands of one type."""
        attribute = f" {item.attribute}" if item.op in COMPARISONS else ""
        flags = f" {item.flags}" if item.flags else ""
        args = ", ".join(map(self._name, item.args))
        return f"{item.op}{attribute}{flags} {kind_of(item.args[0])} {args}"

    def _cast(self, item: Instruction) -> str:
        return f"{item.op} {self.typed(item.args[0])} to {kind_of(item)}"

    def _all_typed(self, item: Instruction) -> str:
        return f"{item.op} {', '.join(map(self.typed, item.args))}"

    def _address(self, item: Instruction) -> str:
        flags = f" {item.flags}" if item.flags else ""
        base, index = map(self.typed, item.args)
        return f"{item.op}{flags} {item.attribute}, {base}, {index}"

    def _load(self, item: Instruction) -> str:
        return f"load {kind_of(item)}, {self.typed(item.args[0])}{_alignment(item)}"

    def _store(self, item: Instruction) -> str:
        return f"store {self.typed(item.args[0])}, {self.typed(item.args[1])}{_alignment(item.args[0])}"

    def _atomic(self, item: Instruction) -> str:
        address, value = map(self.typed, item.args)
        return f"{item.op} {item.attribute} {address}, {value} seq_cst"

    def _alloca(self, item: Instruction) -> str:
        kind, count = item.attribute
        return f"alloca {kind}, i64 {count}"

    def _call(self, item: Instruction) -> str:
        result = "void" if item.type is None else kind_of(item)
        if not item.attribute.name:
            function, *args = item.args
            return f"call {result} {self._name(function)}({', '.join(map(self.typed, args))})"
        if item.attribute.is_declared:
            self.used.setdefault(item.attribute.name[1:], (result, *map(kind_of, item.args)))
        return f"call {result} {item.attribute.name}({', '.join(map(self.typed, item.args))})"

    def _reduce(self, item: Instruction) -> str:
        vector = item.args[-1]
        suffix = f"v{vector.lanes}{vector.type.suffix if vector.type else ''}"
        name, result = f"llvm.vector.reduce.{item.attribute}.{suffix}", kind_of(item)
        self.used.setdefault(name, (result, *map(kind_of, item.args)))
        flags = f"{item.flags} " if item.flags else ""
        return f"call {flags}{result} @{name}({', '.join(map(self.typed, item.args))})"

    def _splat(self, item: Instruction) -> str:
        vector, first = kind_of(item), self._new()
        self.lines.append(f"  {first} = insertelement {vector} poison, {self.typed(item.args[0])}, i64 0")
        return f"shufflevector {vector} {first}, {vector} poison, <{item.lanes} x i32> zeroinitializer"

    def _extract(self, item: Instruction) -> str:
        return f"{item.op} {self.typed(item.args[0])}, i64 {item.attribute}"

    def _insert(self, item: Instruction) -> str:
        whole = self.typed(item.args[0]) if len(item.args) > 1 else f"{kind_of(item)} poison"
        return f"{item.op} {whole}, {self.typed(item.args[-1])}, i64 {item.attribute}"

    # Control

    def _begin(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.label = label

    def _condition(self, item: If) -> None:
        self._blocks += 1
        then, after = f"then{self._blocks}", f"after{self._blocks}"
        self.lines.append(f"  br i1 {self._name(item.condition)}, label %{then}, label %{after}")
        self._begin(then)
        self.body(item.body)
        self.lines.append(f"  br label %{after}")
        self._begin(after)

    def _loop(self, loop: Loop) -> None:
        self._blocks += 1
        begin, after, before = f"loop{self._blocks}", f"after{self._blocks}", self.label
        start, stop = self._name(loop.start), self._name(loop.stop)
        if loop.may_be_empty:
            any_ = self._new()
            self.lines.append(f"  {any_} = icmp slt i64 {start}, {stop}")
            self.lines.append(f"  br i1 {any_}, label %{begin}, label %{after}")
        else:
            self.lines.append(f"  br label %{begin}")
        starts = [self._name(each.start) for each in loop.carried]
        variable, *carried = [self._new(each) for each in (loop.variable, *loop.carried)]
        self._begin(begin)
        place = len(self.lines)  # of the phis, which need the names of values in the body
        self.body(loop.body)
        step, done, last = self._new(), self._new(), self.label
        self.lines += [
            f"  {step} = add nuw nsw i64 {variable}, {loop.step}",
            f"  {done} = icmp eq i64 {step}, {stop}",
            f"  br i1 {done}, label %{after}, label %{begin}",
        ]
        nexts = [self._name(each.next) for each in loop.carried]
        kinds = list(map(kind_of, loop.carried))
        self.lines[place:place] = _phis(
            (variable, *carried), ("i64", *kinds), before, (start, *starts), last, (step, *nexts)
        )
        self._begin(after)
        for each, kind, first, next_ in zip(loop.carried, kinds, starts, nexts, strict=True):
            if loop.may_be_empty:
                self.lines.append(
                    f"  {self._new(each.after)} = phi {kind} [ {first}, %{before} ], [ {next_}, %{last} ]"
                )
            else:
                self._names[each.after] = next_

    def _while(self, loop: While) -> None:
        self._blocks += 1
        head, begin, after = f"head{self._blocks}", f"loop{self._blocks}", f"after{self._blocks}"
        before, starts = self.label, [self._name(each.start) for each in loop.carried]
        variable, *carried = [self._new(each) for each in (loop.variable, *loop.carried)]
        self.lines.append(f"  br label %{head}")
        self._begin(head)
        place = len(self.lines)
        self.body(loop.head)
        self.lines.append(f"  br i1 {self._name(loop.condition)}, label %{begin}, label %{after}")
        self._begin(begin)
        self.body(loop.body)
        step, last = self._new(), self.label
        self.lines += [f"  {step} = add nuw nsw i64 {variable}, 1", f"  br label %{head}"]
        nexts = [self._name(each.next) for each in loop.carried]
        kinds = list(map(kind_of, loop.carried))
        self.lines[place:place] = _phis(
            (variable, *carried), ("i64", *kinds), before, ("0", *starts), last, (step, *nexts)
        )
        self._begin(after)
        for each, name in zip(loop.carried, carried, strict=True):
            self._names[each.after] = name


def _phis(
    names: Sequence[str], kinds: Sequence[str], before: str, starts: Sequence[str], last: str, nexts: Sequence[str]
) -> list[str]:
    """Return the phi instructions of a block with two predecessors."""
    return [
        f"  {name} = phi {kind} [ {start}, %{before} ], [ {next_}, %{last} ]"
        for name, kind, start, next_ in zip(names, kinds, starts, nexts, strict=True)
    ]


def kind_of(value: Value) -> str:
    """Return the type of a value, in LLVM's syntax."""
    return str(value.type) if value.lanes == 1 else f"<{value.lanes} x {value.type}>"


def _alignment(value: Value) -> str:
    """Return the alignment of a vector in memory: that of its elements."""
    assert value.type is not None
    return "" if value.lanes == 1 else f", align {max(value.type.bits // 8, 1)}"


_WRITERS: dict[Op, Callable[[_Printer, Instruction], str]] = {
    **dict.fromkeys([*BINARY, *COMPARISONS, Op.FNEG], _Printer._of_one_type),
    **dict.fromkeys(CASTS, _Printer._cast),
    Op.SELECT: _Printer._all_typed,
    Op.CALL: _Printer._call,
    Op.ADDRESS: _Printer._address,
    Op.LOAD: _Printer._load,
    Op.STORE: _Printer._store,
    Op.ATOMIC: _Printer._atomic,
    Op.ALLOCA: _Printer._alloca,
    Op.SPLAT: _Printer._splat,
    Op.EXTRACT: _Printer._extract,
    Op.INSERT: _Printer._insert,
    Op.REDUCE: _Printer._reduce,
}
