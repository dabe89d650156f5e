"""Export of programs as object files with a C interface, which need neither Python nor NumPy.

    code = object_file(signature, block, target)      the code, the header and the description
    write(code, path, with_library)                   `model.h`, `model.o`, `model.json`, and a shared library

The parameters of a function `model` are pointers to its arguments and results, which are arrays in C order, and to a
workspace. It allocates no memory and has no state, so threads can call it concurrently, each with its own workspace.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.graphs.equations import Name
from fgrad.graphs.graph import Block
from fgrad.graphs.loop_invariants import simplified
from fgrad.graphs.rerolling import rerolled
from fgrad.graphs.unrolling import unrolled
from fgrad.native import ir
from fgrad.native.artifacts import ExportedFiles, Parameter, Signature, Target
from fgrad.native.calls import ALIGNMENT, Functions, append_copy
from fgrad.native.ir import Builder, Op, Symbol, Type, Value, integer
from fgrad.native.linkage import Exported, Linkage, literal
from fgrad.native.lowering import Program, any_failure
from fgrad.native.machine import Machine
from fgrad.native.nests import memory_of
from fgrad.native.nodes import LibraryCall, LoopNode, Node, NumpyStep
from fgrad.native.plan import make_plan
from fgrad.native.primitives import lowered
from fgrad.native.segments import Segment

INTERFACE = 1
"""The version of the C interface: the function, `_workspace_bytes` and `_description`."""
_MOST_ON_STACK = 1024
"""The largest arena, in bytes, that is on the stack, where LLVM promotes elements to registers."""


@dataclass(frozen=True)
class Code:
    """An object file with its header and description.

    Attributes:
        name: the name of the function.
        binary: the object file.
        header: the C header.
        description: the signature and requirements, as JSON.
        symbols: the BLAS and LAPACK functions that the code calls.
    """

    name: str
    binary: bytes
    header: str
    description: str
    symbols: Sequence[str]


def object_file(signature: Signature, block: Block, target: Target) -> Code:
    """Return a program compiled to an object file.

    Args:
        signature: the names of inputs and outputs.
        block: the program; some outputs may be constants.
        target: the target of the code.

    Raises:
        UnsupportedError: a NotImplementedError; an operation has no native code.
        ParameterError: a ValueError; LLVM has no such target.
    """
    machine, linkage = _machine(target), Exported(target.calls_blas)
    functions = Functions(0, None, linkage)
    text, workspace = function(signature.name, block, functions)
    loops, used = linkage.loops()
    functions.used.update(used)
    description = _description(signature, machine, workspace, list(linkage.symbols))
    whole = [
        linkage.text(), *loops, machine.declarations(functions.used), *functions.texts, *functions.unvectorized, text,
        _workspace(signature.name, workspace), _description_global(signature.name, description),
    ]  # fmt: skip
    header = _header(signature, workspace, list(linkage.symbols))
    return Code(signature.name, machine.object_code("\n".join(whole)), header, description, list(linkage.symbols))


def _machine(target: Target) -> Machine:
    """Return the compiler for a target."""
    here = Machine.this()
    if target.cpu == "native" and target.triple not in (None, here.triple):
        raise errors.ParameterError("cpu='native' is for code that runs on this machine; leave out target.")
    is_native = target.cpu == "native"
    cpu, features = (here.cpu, here.features) if is_native else (target.cpu, target.features)
    if (cpu or features) and not is_native:
        _check_processor(target.triple or here.triple, cpu, features)
    return Machine(target.triple or here.triple, cpu, features)


_TRIAL = """
import sys
import llvmlite.binding as llvm

triple, cpu, features = sys.argv[1:]
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features)
text = f'target triple = "{triple}"\\ndefine double @f(double %x) {{\\n  ret double %x\\n}}'
machine.emit_object(llvm.parse_assembly(text))
"""


@functools.cache
def _check_processor(triple: str, cpu: str, features: str) -> None:
    """Compile a trial function in a subprocess, since LLVM aborts the process for an unknown processor.

    Raises:
        ParameterError: a ValueError; LLVM does not know the processor or an extension.
    """
    command = [sys.executable, "-c", _TRIAL, triple, cpu, features]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    unknown = [line for line in done.stderr.splitlines() if "not a recognized" in line]
    if done.returncode or unknown:
        message = (unknown or done.stderr.strip().splitlines() or ["it ended"])[-1]
        raise errors.ParameterError(
            f"LLVM makes no code for cpu={cpu!r} and features={features!r} on {triple}: {message:.300}\n"
            "cpu is a name as gcc's -march, such as 'haswell', and features are such as '+avx2,+fma'."
        )


def function(name: str, block: Block, functions: Functions) -> tuple[str, int]:
    """Return the LLVM IR of the function of a program, and the size of its workspace in bytes."""
    outputs = block.outputs
    block = simplified(unrolled(rerolled(block)))
    program = lowered(block)
    _check_native(program, block, functions.linkage)
    nodes = [program.names[each] if type(each) is Name else None for each in block.outputs]
    failed = any_failure(program)
    roots = [*filter(None, nodes), *([failed] if failed else [])]
    plan = make_plan(program.all, roots)
    known: dict[Node, Any] = dict(program.constants)
    segment = Segment(name, plan.items, plan, known, functions, set())
    given, code = [program.inputs[name] for name in block.inputs], Builder()
    inputs = [ir.Parameter(f"x{place}") for place in range(len(given))]
    results = [ir.Parameter(f"y{place}") for place in range(len(outputs))]
    workspace, constant = ir.Parameter("workspace"), functions.linkage.constant
    memory: dict[Node, Value] = dict(zip(given, inputs, strict=True))
    copies: list[tuple[Value, Value, int]] = []
    for result, node, output in zip(results, nodes, outputs, strict=True):
        root = None if node is None else memory_of(node)
        if root is None:
            array = np.ascontiguousarray(output)
            copies.append((result, Symbol(constant(array)), array.nbytes))
        elif root in memory or root in known:
            copies.append((result, memory.get(root) or Symbol(constant(known[root])), root.nbytes))
        else:
            memory[root] = result
    if failed:
        memory[failed] = code.alloca(Type.I8)
    segment.place({memory_of(node) for node in roots})
    on_stack = segment.arena <= _MOST_ON_STACK
    segment.append(code, memory, code.alloca(Type.I64, segment.arena // 8) if on_stack else _aligned(code, workspace))
    for copy in copies:
        append_copy(code, *copy)
    status = code.cast(Op.ZEXT, code.load(Type.I8, memory[failed]), Type.I32) if failed else integer(0, Type.I32)
    text = segment.definition(code, [*inputs, *results, workspace], status)
    return text, 0 if on_stack else segment.arena + ALIGNMENT


def _aligned(code: Builder, address: Value) -> Value:
    """Append an address rounded up to a multiple of `ALIGNMENT`."""
    number = code.add(code.cast(Op.PTRTOINT, address, Type.I64), integer(ALIGNMENT - 1), flags="")
    return code.cast(Op.INTTOPTR, code.both(number, integer(-ALIGNMENT)), Type.PTR)


def _check_native(program: Program, block: Block, linkage: Linkage) -> None:
    """Raise for operations that need NumPy, or the inner loop of a ufunc unless the linkage can call it."""
    reasons = dict(program.refused)
    for each in _all_nodes(program):
        if isinstance(each, LibraryCall) and each.routine == "ufunc" and not linkage.calls_ufuncs:
            reasons.setdefault(
                each.equation, f"{each.options.ufunc.__name__} is computed by SciPy's or NumPy's own code"
            )
        elif isinstance(each, NumpyStep):
            reasons.setdefault(each.equation, "an operation has no native code")
    if not reasons:
        return
    lines = []
    for place, reason in sorted(reasons.items()):
        line = block.equations[place].place if 0 <= place < len(block.equations) else None
        lines.append(f"  {reason}" + (f", at {errors.line_at(line)}" if line else ""))
    raise errors.UnsupportedError(
        "a C function runs without Python, and these operations have no code for that:\n"
        + "\n".join(dict.fromkeys(lines))
        + "\nLeave them to the program that calls the function, or write them with operations that have native code."
    )


def _all_nodes(program: Program) -> list[Node]:
    """Return the nodes of a program and of the loops in it; the latter get the equation of their loop."""
    found = []
    for node in program.all:
        found.append(node)
        if isinstance(node, LoopNode):
            conditions = [] if node.condition is None else [node.condition[0]]
            for inner in (node.program, *conditions):
                for each in _all_nodes(inner):
                    each.equation = node.equation
                    found.append(each)
    return found


# Description and header


def _workspace(name: str, size: int) -> str:
    return f"define i64 @{name}_workspace_bytes() #0 {{\n  ret i64 {size}\n}}"


def _description_global(name: str, description: str) -> str:
    return f"@{name}_description = constant {literal(description.encode() + bytes(1))}"


def _description(signature: Signature, machine: Machine, workspace: int, symbols: Sequence[str]) -> str:
    def entries(parameters: Sequence[Parameter]) -> list[dict[str, Any]]:
        return [{**vars(each), "shape": list(each.shape)} for each in parameters]

    whole = {
        "interface": INTERFACE, "name": signature.name, "target": machine.triple, "cpu": machine.cpu,
        "features": machine.features, "workspace_bytes": workspace, "symbols": symbols,
        "arguments": entries(signature.arguments), "results": entries(signature.results), **signature.trees,
    }  # fmt: skip
    return json.dumps(whole, indent=1)


_HEADER = """\
/* {name}: a function exported by fgrad. Arrays are in C order; bool is one byte, 0 or 1.
 *
{lines}
 * workspace    {workspace} bytes, as {name}_workspace_bytes() says; any address. Each thread needs its own.
 *
 * Results and workspace share no memory with each other, nor with arguments.
 * Returns 0; 1 if the arguments have no result: an index out of range, a matrix that is singular or not positive
 * definite; or infinities or NaN in products or factors of matrices.
 * Link with -lm{symbols}.
 */
#ifndef {guard}
#define {guard}

#include <stdint.h>

#define {upper}_INTERFACE {interface}

#ifdef __cplusplus
extern "C" {{
#endif

int {name}({parameters});
uint64_t {name}_workspace_bytes(void);
extern const char {name}_description[];

#ifdef __cplusplus
}}
#endif

#endif
"""


def _header(signature: Signature, workspace: int, symbols: Sequence[str]) -> str:
    """Return the C header."""
    lines, parameters = [], []
    for each, direction in [*((x, "in ") for x in signature.arguments), *((x, "out") for x in signature.results)]:
        shape = " x ".join(map(str, each.shape)) or "one number"
        path = each.path.replace("*/", "* /").replace("/*", "/ *")  # these would end the comment, or look like a start
        lines.append(f" * {direction} {each.name:<12} {shape}" + (f", {path}" if each.path != each.name else ""))
        parameters.append(f"{'const ' if direction == 'in ' else ''}{each.kind} *{each.name}")
    upper = signature.name.upper()
    return _HEADER.format(
        name=signature.name, lines="\n".join(lines), workspace=workspace, upper=upper, guard=f"{upper}_H",
        interface=INTERFACE, parameters=", ".join([*parameters, "void *workspace"]),
        symbols=f", and with BLAS and LAPACK for {', '.join(symbols)}" if symbols else "",
    )  # fmt: skip


# Files


def compiler() -> list[str]:
    """Return the command of a C compiler: that of `CC`, a system compiler, or that of the package ziglang.

    Raises:
        ParameterError: a ValueError; there is none.
    """
    for name in filter(None, (os.environ.get("CC"), "cc", "gcc", "clang")):
        command = name.split()
        if shutil.which(command[0]):
            return command
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    raise errors.ParameterError(
        "export links a shared library with a C compiler, and finds none: there is no cc, gcc or clang, and the "
        "variable CC names none.\nInstall one, for instance with pip install ziglang, or pass library=False for the "
        "object file alone."
    )


def write(code: Code, path: Path, with_library: bool) -> ExportedFiles:
    """Write the files of exported code, and link a shared library if requested."""
    linker = compiler() if with_library else []
    header, binary, description = (path.with_name(f"{path.name}{end}") for end in (".h", ".o", ".json"))
    header.write_text(code.header, encoding="utf-8")
    binary.write_bytes(code.binary)
    description.write_text(code.description, encoding="utf-8")
    return ExportedFiles(header, binary, description, _linked(linker, binary, path, code) if with_library else None)


def _linked(linker: Sequence[str], binary: Path, path: Path, code: Code) -> Path:
    end = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
    library = path.with_name(f"{path.name}{end}")
    needed = ["-lm", *(["-llapack", "-lblas"] if code.symbols else [])]
    command = [*linker, "-shared", "-o", str(library), str(binary), *needed]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise errors.ParameterError(
            f"the C compiler links no shared library: {' '.join(command)} says\n{done.stderr.strip()[-2000:]}\n"
            "Pass library=False for the object file alone, or blas=False for code that calls no library."
        )
    return library
