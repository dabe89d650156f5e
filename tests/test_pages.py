"""The pages for those who come from other libraries: their blocks run, and give what is shown.

A page's block begins with a comment that names its library. Its result is the value of its last line.
A block of text shows the results of all blocks before it, back to the previous text: a value as Python
code, or the exception that each raises. The blocks under "Imports" run before every block of their
library. Blocks of a library that is not installed are not run; the fgrad block beside them always is.
"""

import ast
import contextlib
import importlib.util
import math
import re
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import autograd
import numpy as np
import pytest

import fgrad as fg
import fgrad.scipy.special
from fgrad.compat import tensorflow, tensorflow1

DOCS = Path(__file__).parent.parent / "docs"

# How closely a library's results agree with fgrad's: those of float32 are rounded to seven digits, and
# the last of them may get lost on the way. Autograd computes with float64 as fgrad does.
PRECISION = {
    "fgrad": 0.0,
    "Autograd": 1e-12,
    "JAX": 2e-6,
    "optax": 2e-5,  # its 1 - 0.999**t keeps four digits of float32's seven
    "PyTorch": 2e-6,
    "TensorFlow": 2e-6,
    "TensorFlow 1": 2e-6,
    "fgrad.compat": 2e-6,
}
MODULES = {"JAX": "jax", "optax": "optax", "PyTorch": "torch"}  # what need not be installed
OLDEST = {"JAX": (0, 12), "PyTorch": (2, 15)}


@dataclass
class Block:
    library: str
    code: str
    line: int


@dataclass
class Example:
    """Some blocks, and the result that is shown below them."""

    heading: str
    blocks: list[Block]
    shown: str


@dataclass
class Raised:
    """The outcome of a block that ends in an exception."""

    error: Exception


@dataclass
class Page:
    name: str
    imports: dict[str, str] = field(default_factory=dict)
    examples: list[Example] = field(default_factory=list)
    tables: dict[str, list[list[str]]] = field(default_factory=dict)


def read(name, text):
    """Return a page's blocks and tables, in order."""
    page, heading, waiting = Page(name), "", []
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if line.startswith("##"):
            heading = line.lstrip("# ")
        elif line.startswith("|"):
            cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            page.tables.setdefault(heading, []).append(cells)
        elif line.startswith("```"):
            inside = "\n".join(_until_fence(lines))
            if line == "```python":
                label, _, code = inside.partition("\n")
                block = Block(label.removeprefix("# "), code, number + 1)
                if heading == "Imports":
                    page.imports[block.library] = code
                else:
                    waiting.append(block)
            else:
                assert line == "```text", f"{name}:{number}: {line}"
                page.examples.append(Example(heading, waiting, inside))
                waiting = []
    assert not waiting, f"{name}: no result is shown for the last block under {heading}"
    return page


def _until_fence(lines):
    for _, line in lines:
        if line == "```":
            return
        yield line


def run(block, imports, name=""):
    """Return what a block's last line gives, or the exception that ends it."""
    place: dict[str, object] = {"__name__": "block"}
    with warnings.catch_warnings(), in_its_own_precision(block.library):
        if block.library in MODULES:  # what other libraries warn of among themselves
            warnings.simplefilter("ignore")
        return _run(block, imports, name, place)


def in_its_own_precision(library):
    """Return a context in which JAX makes arrays of 32 bits, as it does by itself, whatever other tests have set."""
    if library not in ("JAX", "optax"):
        return contextlib.nullcontext()
    return importlib.import_module("jax").enable_x64(False)


def _run(block, imports, name, place):
    exec(compile(imports, f"imports of {block.library}", "exec"), place)
    tree = ast.increment_lineno(ast.parse(block.code), block.line)
    last = tree.body.pop()
    assert isinstance(last, ast.Expr), f"{name}:{block.line}: the block's last line has no value"
    try:
        exec(compile(tree, f"{name}, {block.library}", "exec"), place)
        return eval(compile(ast.Expression(last.value), f"{name}, {block.library}", "eval"), place)
    except Exception as error:
        return Raised(error)


def plain(value):
    """Return a result in Python's own numbers and containers; libraries differ in tuple or list."""
    if isinstance(value, Raised):
        raise value.error
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, np.dtype):
        return str(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    return plain(value.numpy()) if hasattr(value, "numpy") else value


def assert_alike(found, expected, rtol, atol, where=""):
    """Compare results: containers and words must be equal, numbers close."""
    number = (int, float, complex)
    assert isinstance(found, bool) == isinstance(expected, bool), f"{where}: {found} is not {expected}"
    if isinstance(expected, number) and isinstance(found, number):
        np.testing.assert_allclose(found, expected, rtol, atol, err_msg=where)
    elif isinstance(expected, (list, dict)):
        assert type(found) is type(expected), f"{where}: {found} is not {expected}"
        assert len(found) == len(expected), f"{where}: {found} is not {expected}"
        for key in expected if isinstance(expected, dict) else range(len(expected)):
            assert_alike(found[key], expected[key], rtol, atol, f"{where}[{key!r}]")
    else:
        assert found == expected, f"{where}: {found!r} is not {expected!r}"


def assert_raises_as_shown(outcome, shown, where):
    assert isinstance(outcome, Raised), f"{where}: {outcome} came instead of {shown}"
    name, _, message = shown.partition(": ")
    names = [each.__name__ for each in type(outcome.error).__mro__]
    assert name in names, f"{where}: {names[0]} was raised, not {name}"
    pattern = ".*".join(map(re.escape, " ".join(message.split()).split("...")))
    text = " ".join(str(outcome.error).split())
    assert re.match(pattern + ("" if message.endswith("...") else "$"), text), f"{where}: {text!r}"


def is_installed(library):
    """Return whether a library is there, in the version of the pages, which earlier ones answer otherwise."""
    if library not in MODULES:
        return True
    if importlib.util.find_spec(MODULES[library]) is None:
        return False
    version = importlib.metadata.version(MODULES[library])
    return tuple(map(int, version.split(".")[:2])) >= OLDEST.get(library, (0, 0))


def check(page, example):
    """Run an example's blocks, and compare their results with what is shown and with each other."""
    outcomes = {}
    for block in example.blocks:
        if is_installed(block.library):
            outcomes[block.library] = run(block, page.imports[block.library], page.name)
    if re.match(r"\w+(Error|Exception): ", example.shown):
        for library, outcome in outcomes.items():
            assert_raises_as_shown(outcome, example.shown, library)
        return
    shown = plain(eval(example.shown, {"inf": math.inf, "nan": math.nan}))
    results = {library: plain(outcome) for library, outcome in outcomes.items()}
    for library, result in results.items():
        # What is shown has eight decimals, as fgrad's tensors are printed.
        rounding = 0.51e-8 + PRECISION[library]
        assert_alike(result, shown, PRECISION[library], rounding, f"{library} and what is shown: ")
        if "fgrad" in results:
            assert_alike(result, results["fgrad"], PRECISION[library], PRECISION[library], f"{library} and fgrad: ")


def with_imports_replaced(page):
    """Return a page on which a library's imports are those of fgrad that the page's first table sets beside them."""
    for row in page.tables[""][2:]:
        there, here = (cell.strip("`") for cell in row)
        assert any(there in code.splitlines() for code in page.imports.values()), there
        for library, code in page.imports.items():
            page.imports[library] = "\n".join(here if line == there else line for line in code.splitlines())
    return page


OTHERS = read("from-other-libraries.md", (DOCS / "from-other-libraries.md").read_text())
TENSORFLOW = with_imports_replaced(read("from-tensorflow.md", (DOCS / "from-tensorflow.md").read_text()))
PAGES = [OTHERS, TENSORFLOW]


@pytest.fixture(autouse=True)
def a_program_of_its_own():
    """Begin with an empty graph, as a program for TensorFlow 1 does."""
    tensorflow1.reset_default_graph()


def named(page, example):
    return pytest.param(page, example, id=f"{page.name}:{example.blocks[0].line} {example.heading}")


@pytest.mark.parametrize(("page", "example"), [named(page, each) for page in PAGES for each in page.examples])
def test_an_example_gives_what_is_shown(page, example):
    check(page, example)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_sets_fgrad_beside_every_library(page):
    assert set(page.imports) == {block.library for each in page.examples for block in each.blocks}
    by_heading: dict[str, set[str]] = {}
    for example in page.examples:
        by_heading.setdefault(example.heading, set()).update(block.library for block in example.blocks)
    assert [heading for heading, libraries in by_heading.items() if not libraries & {"fgrad", "fgrad.compat"}] == []


# The table of names


@pytest.mark.parametrize("row", TENSORFLOW.tables["What functions are called"][2:], ids=lambda row: row[0])
def test_the_table_of_names(row):
    there, here = (cell.strip("`") for cell in row)
    x, y = np.random.default_rng(0).uniform(0.1, 0.9, (2, 2, 3))

    def value_and_gradients(expression):
        value, pullback = fg.vjp(lambda x, y: eval(expression, names, {"x": x, "y": y}), x, y)
        weights = np.cos(np.arange(value.size)).reshape(value.shape)
        return plain([value, pullback(weights)])

    names = {"tf": tensorflow, "np": np, "fgrad": fgrad}
    assert_alike(value_and_gradients(there), value_and_gradients(here), 1e-12, 1e-12, there)


# The table of what is missing


@pytest.mark.parametrize(
    "row", TENSORFLOW.tables["What is missing, and what to use instead"][2:], ids=lambda row: row[0]
)
def test_the_table_of_what_is_missing(row):
    missing, instead = (re.findall(r"`((?:tf|fg)\.[\w.]+)`", cell) for cell in row)
    assert missing
    for name in missing:
        with pytest.raises(AttributeError, match="has no"):
            eval(name, {"tf": tensorflow})
    for name in instead:
        assert eval(name, {"tf": tensorflow, "fg": fg}) is not None


# The table of kinks

_HEADER, _, *KINKS = OTHERS.tables["Kinks, ties and masked values"]
NAMESPACES = {"fgrad": "numpy", "Autograd": "autograd.numpy", "JAX": "jax.numpy", "PyTorch": "torch"}


def gradient_of(library, expression, at):
    """Return a library's gradient of an expression in `x` and `np`."""
    np_there = importlib.import_module(NAMESPACES[library])

    def f(x):
        return eval(expression, {"np": np_there, "x": x})

    with np.errstate(all="ignore"):
        if library == "fgrad":
            return fg.grad(f)(np.array(at))
        if library == "Autograd":
            return autograd.grad(f)(np.array(at))
        if library == "JAX":
            with in_its_own_precision(library):
                return importlib.import_module("jax").grad(f)(np_there.array(at))
        return np_there.func.grad(f)(np_there.tensor(at))


@pytest.mark.parametrize("row", KINKS, ids=lambda row: row[0])
def test_the_table_of_kinks(row):
    expression, at, *expected = (
        eval(cell.strip("`"), {"inf": math.inf, "nan": math.nan}) if place else cell.strip("`")
        for place, cell in enumerate(row)
    )
    assert list(NAMESPACES) == _HEADER[2:]
    for library, shown in zip(NAMESPACES, expected, strict=True):
        if is_installed(library):
            with warnings.catch_warnings():
                warnings.simplefilter("error" if library == "fgrad" else "ignore")
                warnings.filterwarnings("ignore", "every gradient of f is zero")
                assert_alike(plain(gradient_of(library, expression, at)), shown, 0, 0, library)


# The tests of the tests: what is wrong on a page is noticed.

PAGE = """
## Imports

```python
# Autograd
import math
```

```python
# fgrad
import math
```

## An example

```python
# Autograd
x = [1.0, {"a": math.pi}, None]
x
```

```python
# fgrad
[1.0, {"a": math.pi + DELTA}, None]
```

```text
[1.0, {"a": 3.14159265}, None]
```
"""


def checked(text):
    page = read("a page", text)
    for example in page.examples:
        check(page, example)


def test_a_right_page_passes():
    checked(PAGE.replace(" + DELTA", ""))
    checked(PAGE.replace(" + DELTA", " + 1e-13"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (" + DELTA", " + 1e-9", r"Autograd and fgrad: \[1\]\['a'\]"),
        ("3.14159265", "3.14159256", r"Autograd and what is shown: \[1\]\['a'\]"),
        ('[1.0, {"a": 3.14159265}, None]\n', '[1.0, {"a": 3.14159265}]\n', "is not"),
        ("3.14159265}, None]", "3.14159265}, 0.0]", "is not 0.0"),
        ('[1.0, {"a": 3', '[True, {"a": 3', "1.0 is not True"),
        ('{"a": 3.14', '{"b": 3.14', "'b'"),
        ('[1.0, {"a": 3.14159265}, None]\n', "ValueError: it fails\n", "came instead of ValueError: it fails"),
        ("\nx\n", "\ny = x\n", "the block's last line has no value"),
        ("```text", "```", r"a page:\d+: ```\n"),
    ],
)
def test_a_wrong_page_is_noticed(old, new, message):
    page = PAGE.replace(old, new).replace(" + DELTA", "")
    with pytest.raises((AssertionError, KeyError), match=message):
        checked(page)


def test_a_block_without_a_result_is_noticed():
    with pytest.raises(AssertionError, match="no result is shown for the last block under An example"):
        read("a page", PAGE[: PAGE.index("```text")])


def test_an_exception_that_was_not_announced_is_raised():
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        checked(PAGE.replace(" + DELTA", " / 0"))


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        ("ArithmeticError: division by zero", None),
        ("ZeroDivisionError: division...", None),
        ("ZeroDivisionError: ...by zero", None),
        ("ZeroDivisionError: division", "'division by zero'"),
        ("ZeroDivisionError: by zero", "'division by zero'"),
        ("ValueError: division by zero", "ZeroDivisionError was raised, not ValueError"),
    ],
)
def test_an_exception_is_compared(shown, message):
    text = PAGE[: PAGE.index("```python\n# Autograd\nx")] + f"```python\n# fgrad\n1 / 0\n```\n\n```text\n{shown}\n```\n"
    if message is None:
        checked(text)
    else:
        with pytest.raises(AssertionError, match=message):
            checked(text)


def test_blocks_run_in_the_precision_that_jax_has_by_itself():
    jax = pytest.importorskip("jax")
    block = Block("JAX", "jax.numpy.ones(2) * 3", 1)
    with jax.enable_x64(True):
        assert run(block, "import jax, jax.numpy").dtype == np.float32
        assert gradient_of("JAX", "x * x", 3.0).dtype == np.float32
