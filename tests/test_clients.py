"""The runner of packages that use Autograd, without any of them: `tools/clients`."""

import sys
import time

import pytest
from clients import __main__ as command
from clients import examples, packages, running
from clients.examples import Output, agreement, alike
from clients.packages import CLIENTS, EXCEPTIONS, Client
from clients.running import Comparison, PreparationError, Results, results

REPORT = """<?xml version="1.0"?>
<testsuites><testsuite name="pytest" time="2.5">
<properties><property name="autograd" value="fgrad.compat.autograd"/></properties>
<testcase classname="tests.test_a.TestA" name="test_one"/>
<testcase classname="tests.test_a" name="test_two"><failure message="no">...</failure></testcase>
<testcase classname="tests.test_a" name="test_three"><skipped message="later"/></testcase>
<testcase classname="tests.test_a" name="test_of[&lt;function f.&lt;locals&gt;.g at 0x7fd1a87de3e0&gt;-1.0]"/>
<testcase classname="tests.test_a" name="test_of[&lt;some.Primitive object at 0x7fd1&gt;-1.0]"/>
</testsuite></testsuites>
"""

SUITE = """
import random
import time
import numpy as np
import {which} as ag

def test_gradient():
    assert ag.grad(lambda x: x * x)(3.0) == 6.0

def test_plainly():
    assert ag.__name__ == "autograd"

def test_waiting():
    time.sleep(2.0)

def test_left_out():
    assert False

def test_numbers():
    assert (random.random(), np.random.rand()) == (0.8444218515250481, 0.5488135039273248)
"""


def test_a_report_is_read(tmp_path):
    (tmp_path / "report.xml").write_text(REPORT)
    found = results(tmp_path / "report.xml")
    assert found.outcomes == {
        "tests.test_a.TestA::test_one": "passed",
        "tests.test_a::test_two": "failure",
        "tests.test_a::test_three": "skipped",
        "tests.test_a::test_of[<object>-1.0]": "passed",
        "tests.test_a::test_of[<object>-1.0] (2)": "passed",
    }
    assert "tests.test_a.TestA::test_one" in found.passed
    assert len(found.passed) == 3
    assert found.answered == "fgrad.compat.autograd"


def compared(theirs, mine, name="some"):
    """Return a comparison of outcomes, given as text such as "a+ b-"."""
    found = {
        library: Results({each[:-1]: "passed" if each[-1] == "+" else "failure" for each in text.split()})
        for library, text in (("autograd", theirs), ("fgrad", mine))
    }
    return Comparison(Client(name, "1.0", ("tests",)), found)


def test_what_passes_with_autograd_has_to_pass(monkeypatch):
    assert compared("a+ b-", "a+ b-").is_good
    assert compared("a+ b-", "a+ b+").is_good
    assert not compared("a+ b+", "a+ b-").is_good
    assert not compared("a+ b+", "a+").is_good  # not even collected
    monkeypatch.setitem(EXCEPTIONS, ("some", "b"), "since it does")
    assert compared("a+ b+", "a+ b-").excused == {"b": "since it does"}
    assert compared("a+ b+", "a+ b-").is_good
    assert not compared("a+ b+", "a+ b-", "other").is_good


def test_rows():
    assert command.row(compared("a+ b+ c-", "a+ b- c+")) == "| some 1.0 | 2 | 1 and 1 more | 0 | 0 |"
    assert command.row(Comparison(Client("some", "1.0", ()), problem="no tests")) == "| some 1.0 | no tests | | | |"


def test_every_exception_is_of_a_package_that_is_run_and_has_a_reason():
    assert {name for name, _ in EXCEPTIONS} <= {client.name for client in CLIENTS}
    assert all(EXCEPTIONS.values())
    assert set(examples.DIFFERENT) <= set(examples.EXAMPLES)
    assert len({client.name for client in CLIENTS}) == len(CLIENTS)
    assert all(bool(client.repository) == bool(client.commit) for client in CLIENTS)


def test_lines_that_say_the_same():
    assert alike("loss 1.2500000001", "loss 1.25")
    assert alike("at (np.float64(4.5e-13), 2.0)", "at (array(9.0e-13), 2.0)")
    assert not alike("loss 1.25", "loss 1.26")
    assert not alike("loss 1.25", "cost 1.25")
    assert not alike("loss 1.25", "loss 1.25 1.25")
    assert not alike("loss nan", "loss 1.0")


def printed(text, status=0):
    return Output(text.split(), 1.0, status)


def test_outputs_are_compared_as_far_as_both_came():
    assert agreement("a", printed("1 2 3", None), printed("1 2", None)).verdict == "the same"
    assert agreement("a", printed("1 2 3", None), printed("1 2", None)).compared == 2
    assert not agreement("a", printed("1 4", None), printed("1 2 3", None)).is_good
    assert agreement("a", printed("1 4"), printed("1 2")).verdict == "differs: '4', with Autograd '2'"
    assert not agreement("a", printed("1"), printed("1 2")).is_good  # both have ended
    assert agreement("a", printed(""), printed("")).verdict == "ends well, and prints nothing"
    stopped = agreement("a", printed("", None), printed("", None))
    assert stopped.verdict == "nothing to compare: stopped after 30 s"
    assert stopped.is_good
    assert not agreement("a", printed("", None), printed("1", None)).is_good  # what Autograd prints in that time
    assert not agreement("a", printed("1", 1), printed("1 2")).is_good
    assert agreement("a", printed("1", 1), printed("1", 1)).is_good
    assert agreement("print_trace.py", printed("1"), printed("2")).is_good
    assert not agreement("rkhs.py", printed("", 1), printed("2")).is_good


def test_an_example_is_stopped_in_time(tmp_path, monkeypatch):
    beginning = "import time; print(1, flush=True); print(2, end='', flush=True); "
    for limit, program in (("SECONDS", "while True: pass"), ("PATIENCE", "time.sleep(60)")):
        monkeypatch.undo()
        monkeypatch.setattr(examples, limit, 3)
        found = examples.run([sys.executable, "-c", beginning + "\n" + program], tmp_path)
        assert (found.lines, found.status) == (["1"], None)
    assert examples.run([sys.executable, "-c", "print(1); raise SystemExit(3)"], tmp_path).status == 3


@pytest.mark.parametrize("library", ["autograd", "fgrad"])
def test_both_runs_of_a_suite(tmp_path, library):
    """Each finds its own module under the name, and the same random numbers."""
    pytest.importorskip("autograd")
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "test_it.py").write_text(SUITE.format(which="autograd"))
    client = Client("some", "1.0", ("test_it.py",), options=("--deselect", "test_it.py::test_left_out"))
    start = time.perf_counter()
    found = running.results_with(library, client, sys.executable, tmp_path / "source", tmp_path)
    assert 0.0 < found.seconds < time.perf_counter() - start - 1.9  # of the processor: one test sleeps
    assert found.answered == running.ANSWERS[library]
    assert found.outcomes == {
        "test_it::test_gradient": "passed",
        "test_it::test_plainly": "passed" if library == "autograd" else "failure",
        "test_it::test_waiting": "passed",
        "test_it::test_numbers": "passed",
    }


def test_tests_that_meet_the_wrong_module_are_no_result(tmp_path):
    """So are those that do not import Autograd at all."""
    (tmp_path / "test_it.py").write_text("def test_it(): pass")
    with pytest.raises(PreparationError, match="`import autograd` in its tests with autograd found: nothing"):
        running.results_with("autograd", Client("some", "1.0", ("test_it.py",)), sys.executable, tmp_path, tmp_path)
    (tmp_path / "test_it.py").write_text("import no_such_module")
    with pytest.raises(PreparationError, match="none of its tests passes with Autograd"):
        running.results_with("autograd", Client("some", "1.0", ("test_it.py",)), sys.executable, tmp_path, tmp_path)


def test_what_cannot_be_prepared_is_said(tmp_path, monkeypatch):
    def refuse(client, folder):
        raise PreparationError("could not install some==1.0: no matching distribution")

    monkeypatch.setattr(running, "prepared", refuse)
    found = running.tested(Client("some", "1.0", ("tests",)), tmp_path / "some")
    assert command.row(found) == "| some 1.0 | could not install some==1.0: no matching distribution | | | |"
    with pytest.raises(PreparationError, match="could not try: so it is"):
        running.done("try", [sys.executable, "-c", "raise SystemExit('so it is')"])
    (tmp_path / "1.0").mkdir()
    with pytest.raises(PreparationError, match="its source has no tests at tests"):
        running.sources(Client("some", "1.0", ("tests",)), tmp_path)


def test_names_of_packages(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["clients", "pandas"])
    with pytest.raises(SystemExit):
        command.main()
    assert "no package is called pandas; there are autograd, lifelines" in capsys.readouterr().err


def test_the_version_beside_which_fgrad_is_set_is_the_one_whose_names_it_has():
    from fgrad.compat import autograd

    assert packages.AUTOGRAD == autograd.__version__
