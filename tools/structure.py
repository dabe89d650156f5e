"""Report the structure of fgrad: what a reader has to hold in mind. `python tools/structure.py [folder]`.

    rooms         what lies in the root of the package, and which way imports point between rooms, by a statement or by
                  `import_module`, when a module is loaded or when a function runs
    reach         how many files and lines of code one operation, and one gradient, run through
    bodies        the longest functions
    looks         tests of the kind of a trace outside of the traces, and places that look into frames

It fails if an import points upwards or round, or cannot be read, or if a function is longer than 40 lines of code. A
line of code holds something that runs: no blank line, no comment, no docstring.
"""

from __future__ import annotations

import ast
import fnmatch
import importlib.util
import io
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
PACKAGE = ROOT / "fgrad"
LONGEST_BODY = 40

LAYERS = [
    "_locks", "typing", "errors", "core", "ops", "transforms", "rules", "graphs", "native", "engines", "loops", "tapes",
    "debugging", "progress", "clipping", "optimizers", "numpy", "scipy", "random", "extend", "saving", "exported",
    "distributed", "testing", "uncertainty", "patterns", "plot", "interop", "sparse", "tree", "", "compat",
]  # fmt: skip
"""Rooms, and modules in the root, from below: each imports from those before it alone. "" is the package itself."""

FILLED = {"fgrad.core", "fgrad.graphs"}
"""Packages that import, before anything of theirs is used, what registers with them; it may lie above."""

ALLOWED_INSIDE = {"safetensors.numpy", "scipy.sparse.linalg"}
"""Optional libraries, which a function may import when it runs."""

OF_OTHER_LIBRARIES = {
    "fgrad.compat.autograd.aliases", "fgrad.engines.jax.library", "fgrad.interop.imported", "fgrad.native.libraries",
    "fgrad.scipy._absent",
}  # fmt: skip
"""Modules that import by a name that cannot be read from the source: a module of another library, or under its name."""

LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

REACH = """
import sys, numpy as np, fgrad as fg
seen = set()
def note(frame, event, arg):
    if event == "call":
        seen.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))
def f(x):
    return np.sin(x) * 2.0
fg.grad(f)(1.0)
if sys.argv[1] == "operation":
    def f(x):
        sys.setprofile(note)
        y = np.sin(x) * 2.0
        sys.setprofile(None)
        return y
    fg.grad(f)(1.0)
else:
    sys.setprofile(note)
    fg.grad(f)(1.0)
    sys.setprofile(None)
print(*(f"{name} {line}" for name, line in sorted(seen) if "fgrad" in name), sep="\\n")
"""


def code_lines(source: str) -> set[int]:
    """Return the numbers of the lines that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        # A statement that is only a string: a docstring, also below an attribute.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


class Module:
    """One file of the package."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        self.source = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.source)
        self.lines = code_lines(self.source)
        self.room = room_of(self.name)
        self.package = self.name if path.stem == "__init__" else self.name.rpartition(".")[0]

    def imports(self, known: set[str]) -> set[str]:
        """Return the modules of the package that it imports, at the top, below `TYPE_CHECKING`, or inside of functions.

        Python loads the packages around a module with it. These count where a name of their own is asked for, and not
        where it is a child of theirs: so a package may import its children, at once or when somebody asks for them, as
        long as no child needs what the package defines.
        """
        found: set[str] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom):
                module = self._resolved("." * node.level + (node.module or ""))
                names = {f"{module}.{alias.name}" for alias in node.names}
                found |= {name if name in known else module for name in names}
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
        for _, name in self._by_name():
            found.update([] if name.startswith("*") else fnmatch.filter(known, name))
        return found & known

    def unread(self) -> Iterator[str]:
        """Yield imports of which the source does not say whose they are."""
        for line, name in self._by_name():
            if name.startswith("*") and self.name not in OF_OTHER_LIBRARIES:
                yield f"{self.path.relative_to(ROOT)}:{line}"

    def _by_name(self) -> Iterator[tuple[int, str]]:
        """Yield the line and the name of each import by `import_module`, with * for what is known when it runs.

        A private function that hands its first argument on to `import_module` imports what it is called with.
        """
        importers = {"import_module", "__import__"}
        handed_on: set[ast.expr] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module == "importlib":
                importers |= {alias.asname or alias.name for alias in node.names if alias.name == "import_module"}
        for node in ast.walk(self.tree):
            if isinstance(node, DEFINITIONS) and node.name.startswith("_"):
                own = [each.arg for each in node.args.args if each.arg not in ("self", "cls")]
                first = own[:1] if not node.args.defaults else []
                names = [name for _, name, *_ in calls(node, importers)]
                handed = {name for name in names if isinstance(name, ast.Name) and name.id in first}
                importers |= {node.name} if handed else set()
                handed_on |= handed
        for line, name, *package in calls(self.tree, importers):
            if name not in handed_on:
                yield line, self._resolved(self._text(name), *map(self._text, package[:1]))

    def _text(self, node: ast.expr) -> str:
        """Return the text that an expression makes, with * for what is known when it runs."""
        if isinstance(node, ast.Constant):
            return str(node.value)
        if isinstance(node, ast.JoinedStr):
            return "".join(map(self._text, node.values))
        if isinstance(node, ast.FormattedValue):
            return self._text(node.value)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._text(node.left) + self._text(node.right)
        own = {"__name__": self.name, "__package__": self.package}
        return own.get(node.id, "*") if isinstance(node, ast.Name) else "*"

    def _resolved(self, name: str, package: str = "*") -> str:
        """Return the whole name of a module; one that begins with dots counts from a package, or from the own one."""
        return importlib.util.resolve_name(name, self.package if package == "*" else package)

    def bodies(self) -> Iterator[tuple[int, str]]:
        """Yield the size in lines of code of each function's body, and where it is."""
        for node in ast.walk(self.tree):
            if isinstance(node, DEFINITIONS):
                size = sum(node.body[0].lineno <= line <= (node.end_lineno or 0) for line in self.lines)
                yield size, f"{self.path.relative_to(ROOT)}:{node.lineno} {node.name}"

    def lines_of_function(self, first: int) -> set[int]:
        """Return the lines of code of the function that begins in a line, with its decorators."""
        for node in ast.walk(self.tree):
            if isinstance(node, (*DEFINITIONS, ast.Lambda)):
                start = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
                if start == first:
                    return {line for line in self.lines if start <= line <= (node.end_lineno or 0)}
        return set()

    def imports_inside(self) -> Iterator[str]:
        """Yield imports inside of functions."""
        for function in ast.walk(self.tree):
            if isinstance(function, DEFINITIONS):
                for node in ast.walk(function):
                    names = [node.module] if isinstance(node, ast.ImportFrom) else []
                    names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                    yield from (f"{self.path.relative_to(ROOT)}:{node.lineno} {name}" for name in names
                                if name not in ALLOWED_INSIDE)  # fmt: skip


def calls(tree: ast.AST, names: set[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the line and the arguments of each call of one of some functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in names:
            arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
            if arguments:
                yield node.lineno, *arguments


def upward(modules: list[Module], known: set[str]) -> list[str]:
    """Return the imports that point from a room to one above it."""
    ranks = {room: place for place, room in enumerate(LAYERS)}
    return [
        f"{module.name} -> {other}"
        for module in modules
        if module.name not in FILLED
        for other in sorted(module.imports(known))
        if module.room != room_of(other) and ranks.get(room_of(other), 99) > ranks.get(module.room, -1)
    ]


def room_of(name: str) -> str:
    """Return the room of a module, or the name of a module in the root; nothing for the package itself."""
    return [*name.split("."), ""][1]


def cycles(modules: list[Module], known: set[str]) -> list[list[str]]:
    """Return the groups of modules that import each other, by Tarjan's algorithm (1972)."""
    arrows = {module.name: module.imports(known) - {module.name} for module in modules}
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in arrows[name]:
            if other not in index:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(sorted(group))

    sys.setrecursionlimit(10_000)
    for name in arrows:
        if name not in index:
            visit(name)
    return found


def reach(what: str, modules: list[Module]) -> tuple[list[str], int]:
    """Return the files through which one operation, or one gradient, runs, and the lines of the functions that do."""
    quietly: dict[str, Any] = {"capture_output": True, "text": True, "check": True}
    ran = subprocess.run([sys.executable, "-c", REACH, what], cwd=ROOT, **quietly)
    by_path = {str(module.path): module for module in modules}
    ran_in: dict[str, set[int]] = {}
    for path, _, first in (line.rpartition(" ") for line in ran.stdout.splitlines()):
        if path in by_path:
            ran_in.setdefault(path, set()).update(by_path[path].lines_of_function(int(first)))
    return sorted(by_path[path].path.stem for path in ran_in), sum(map(len, ran_in.values()))


def mentions(modules: list[Module], *texts: str) -> list[str]:
    """Return where one of some texts occurs in code."""
    return [
        f"{module.path.relative_to(ROOT)}:{number} {line.strip()[:90]}"
        for module in modules
        for number, line in enumerate(module.source.splitlines(), 1)
        if number in module.lines and any(text in line for text in texts)
    ]


def kinds_asked(modules: list[Module]) -> list[str]:
    """Return tests of what kind a trace is, outside of the traces."""
    return [
        each for each in mentions(modules, "isinstance(")
        if any(kind in each for kind in ("ReverseTrace", "ForwardTrace", "BatchTrace", "RecordTrace"))
    ]  # fmt: skip


def show(title: str, found: list[str]) -> None:
    """Print how many there are of something, and which."""
    print(f"{title:24} {len(found):5}", *found, sep="\n    " if found else "")


def main() -> int:
    """Print the report, and return how many limits are exceeded."""
    modules = [Module(path) for path in sorted(PACKAGE.rglob("*.py"))]
    known = {module.name for module in modules}
    loose = [path.stem for path in sorted(PACKAGE.glob("*.py")) if path.stem != "__init__"]
    print(f"modules in the root      {len(loose):5}  {' '.join(loose)}")
    up, round_about = upward(modules, known), cycles(modules, known)
    inside = [each for module in modules for each in module.imports_inside()]
    print(f"imports upwards          {len(up):5}", *up, sep="\n    " if up else "")
    print(
        f"import cycles            {len(round_about):5}",
        *map(" ".join, round_about),
        sep="\n    " if round_about else "",
    )
    print(f"imports inside functions {len(inside):5}", *inside, sep="\n    " if inside else "")
    unread = [each for module in modules for each in module.unread()]
    show("imports not read", unread)
    for what in ("operation", "gradient"):
        files, lines = reach(what, modules)
        print(f"one {what:20} {len(files):5} files, {lines} lines of code that run: {' '.join(files)}")
    bodies = sorted((body for module in modules for body in module.bodies()), reverse=True)
    print("longest bodies", *(f"{size:5} {where}" for size, where in bodies[:5]), sep="\n    ")
    for title, found in (
        ("asks for kinds of traces", kinds_asked(modules)),
        ("looks into frames", mentions(modules, "_getframe", "f_locals", "f_lasti", "f_back", "tb_frame")),
        ("looks into closures", mentions(modules, "cell_contents", "getclosurevars", ".__class__ =")),
    ):
        show(title, found)
    core = sum(len(module.lines) for module in modules if module.room == "core")
    print(f"lines of code            {sum(len(module.lines) for module in modules):5}, of which in core {core}")
    long = [where for size, where in bodies if size > LONGEST_BODY]
    failures = len(up) + len(round_about) + len(inside) + len(unread) + len(long)
    print(f"{failures} beyond the limits" if failures else "within the limits")
    return failures


if __name__ == "__main__":
    sys.exit(main())
