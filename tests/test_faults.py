"""The planted faults of `make faults`, and the tool that plants them: `tools/faults`."""

import textwrap

import pytest
from faults import __main__ as command
from faults import probes
from faults.table import ROOT, Fault, RottenFaultError, faults

FAULTS = faults()


@pytest.mark.parametrize("file", dict.fromkeys(fault.file for fault in FAULTS))
def test_each_fault_can_be_planted(file):
    source, own = (ROOT / file).read_text(), [fault for fault in FAULTS if fault.file == file]
    for fault in own:
        planted = fault.planted(source)
        compile(planted, file, "exec")
        pairs = zip(source.splitlines(), planted.splitlines(), strict=True)
        assert sum(before != after for before, after in pairs) == 1, fault
    compile(probes.probed(source, [(fault.offset_in(source), fault.number) for fault in own]), file, "exec")


def test_there_are_a_hundred_different_faults_in_all_areas():
    assert len(FAULTS) >= 100
    assert len({(fault.file, fault.old) for fault in FAULTS}) == len(FAULTS)
    assert len({fault.area for fault in FAULTS}) == 8


@pytest.mark.parametrize("source", ["", "x = a + b\ny = a + b\n"])
def test_a_text_that_does_not_stand_there_once_is_an_error(source):
    fault = Fault(7, "core", "fgrad/core/sums.py", "a + b", "a - b", "sums")
    with pytest.raises(RottenFaultError, match="fault 7 replaces a text that stands [02] times in fgrad/core/sums.py"):
        fault.planted(source)


PROBED = """
def f(x, *rest):
    '''Return something.'''
    if x > 1: return (x, 2)
    elif x:
        double = lambda y=1: y + \\
            y
        with open("é") as file, open("ü") as other: return 3, double(2)
    values = {}
    values[0] = x; values[1] = 5
    for each in rest or [6]: yield each
"""


@pytest.mark.parametrize(
    ("text", "wrapped"),
    [
        ("> 1", "(x > 1)"),
        ("2)\n", "((x, 2))"),
        ("x:\n", "(x)"),
        ("+ \\", "(y + \\\n            y)"),
        ('"ü"', '(open("ü"))'),
        ("double(2)", "(3, double(2))"),
        ("values[0]", "(x)"),
        ("5\n", "(5)"),
        ("[6]", "(rest or [6])"),
        ("yield", "(yield each)"),
    ],
)
def test_a_probe_stands_around_the_expression_of_a_line(text, wrapped):
    changed = probes.probed(PROBED, [(PROBED.index(text), 7)])
    compile(changed, "probed", "exec")
    before, _, after = changed.partition('(__import__("fault_probe").hit(7), ')
    assert after.startswith(wrapped + ")[1]")
    assert before + after.replace(wrapped + ")[1]", wrapped[1:-1], 1) == PROBED


def test_a_probe_needs_an_expression():
    with pytest.raises(ValueError, match="no expression at line 2"):
        probes.probed("x = 1\npass\n", [(7, 1)])


SUM = Fault(1, "core", "fgrad/sums.py", "a + b", "a - b", "sums")
PRODUCT = Fault(2, "core", "fgrad/sums.py", "a * b", "a / b", "products")
POWER = Fault(3, "core", "fgrad/sums.py", "a**b", "b**a", "powers")
FILES = {
    "fgrad/__init__.py": "",
    "fgrad/sums.py": """
        def total(a, b): return a + b
        def product(a, b): return a * b
        def power(a, b): return a**b
    """,
    "tests/test_both.py": """
        import os, subprocess, sys
        from fgrad import sums
        def test_product(): assert sums.product(3, 1) == sums.total(1, 2) == 3
        def test_in_another_process():
            subprocess.run([sys.executable, "-c", "from fgrad import sums; sums.product(2, 1)"], check=True)
    """,
    "tests/test_sum.py": """
        from fgrad import sums
        def test_nothing(): pass
        def test_sum(): assert sums.total(2, 1) == 3
    """,
    "tests/test_names.py": "def test_nothing(): pass",
}


@pytest.fixture
def tree(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return tmp_path


@pytest.mark.slow
def test_faults_are_planted_one_after_the_other(tree):
    several = [SUM, PRODUCT, POWER]
    found = command.tests_that_run(several, tree, tree / "log", ["tests"])
    of_both = ["tests/test_both.py::test_in_another_process", "tests/test_both.py::test_product"]
    assert found == {1: ["tests/test_sum.py::test_sum", of_both[1]], 2: of_both}
    outcomes = [command.outcome_of(fault, tree, found.get(fault.number, [])) for fault in several]
    assert [each.test for each in outcomes] == ["tests/test_sum.py::test_sum", "", ""]
    assert (tree / "fgrad/sums.py").read_text() == textwrap.dedent(FILES["fgrad/sums.py"])
    assert "caught by tests/test_sum.py::test_sum" in command.line(outcomes[0])
    assert "NOT CAUGHT by 2 tests that run it" in command.line(outcomes[1])
    assert command.table(outcomes).splitlines()[-1].split() == ["all", "1", "of", "3"]


def test_a_test_that_fails_without_a_fault_is_an_error(tree):
    (tree / "tests/test_names.py").write_text("def test_name(): assert not 'a name'")
    with pytest.raises(RuntimeError, match=r"(?s)fail without a fault.*test_names.py::test_name"):
        command.tests_that_run([SUM], tree, tree / "log", ["tests"])
