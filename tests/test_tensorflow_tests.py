"""The runner of TensorFlow's own tests, without any of them: `tools/tensorflow_tests`."""

import json
import os
import re
import subprocess
import sys
import time
import unittest
from pathlib import Path

import pytest
from tensorflow_tests import __main__ as command
from tensorflow_tests import cases, files, worker
from tensorflow_tests.counterparts import elsewhere
from tensorflow_tests.files import COMMIT, FILES, LEFT, OUTSIDE, File
from tensorflow_tests.names import installed
from tensorflow_tests.running import Results

import fgrad as fg
import fgrad.compat.tensorflow as tf
import fgrad.compat.tensorflow1 as tf1

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture
def tensorflow():
    with installed("fgrad.compat.tensorflow", elsewhere(tf)):
        yield


def test_names_are_found(tensorflow):
    from tensorflow.python.eager import backprop
    from tensorflow.python.framework.constant_op import constant
    from tensorflow.python.ops import gradients, math_ops, nn, variables
    from tensorflow.python.ops.parallel_for import gradients as jacobians
    from tensorflow.python.training import adam, training

    assert constant is tf.constant
    assert math_ops.matmul is tf.matmul
    assert nn.relu is tf.nn.relu
    assert gradients.gradients is tf.gradients
    assert adam.AdamOptimizer is training.AdamOptimizer is tf.train.AdamOptimizer
    assert variables.VariableV1 is tf.Variable
    assert backprop.GradientTape is tf.GradientTape
    assert jacobians.jacobian is tf.python.ops.parallel_for.gradients.jacobian
    w = tf.Variable(3.0)
    assert [(float(g), v is w) for g, v in backprop.implicit_grad(lambda: w * w)()] == [(6.0, True)]


def test_what_is_not_there_is_named(tensorflow):
    from tensorflow.python.ops import list_ops, math_ops

    with pytest.raises(AttributeError, match=r"tensorflow\.python\.ops\.list_ops\.nothing has no counterpart"):
        list_ops.nothing  # noqa: B018
    with pytest.raises(AttributeError, match=r"math_ops\._mul_dispatch has no counterpart"):
        math_ops._mul_dispatch  # noqa: B018
    with pytest.raises(ImportError):
        from tensorflow.python.layers.pooling import nothing  # noqa: F401
    from tensorflow.python.keras.engine import training

    with pytest.raises(AttributeError, match=r"keras\.Model has no counterpart"):
        type("Model", (training.Model,), {})()


def test_afterwards_there_is_no_tensorflow(tensorflow):
    import tensorflow

    assert "tensorflow" in sys.modules
    with installed("fgrad.compat.tensorflow1", elsewhere(tf1)):
        from tensorflow.python.ops import variables

        assert variables.Variable is tf1.Variable
    assert "tensorflow" not in sys.modules
    assert tensorflow.__name__ == "tensorflow"


class Case(cases.TestCase):
    tf = tf

    def runTest(self):  # noqa: N802
        pass

    both = cases.decorators(tf)["run_in_graph_and_eager_modes"](lambda self: self.seen.append(tf.executing_eagerly()))
    graph = cases.decorators(tf)["run_deprecated_v1"](lambda self: self.seen.append(tf.executing_eagerly()))


@pytest.fixture
def case():
    case = Case()
    case.setUp()
    case.seen = []
    yield case
    case.tearDown()


def test_modes(case):
    case.both()
    case.graph()
    assert case.seen == [False, True, False]
    assert tf.executing_eagerly()
    with cases.graph_mode(tf), cases.eager_mode(tf):
        assert tf.executing_eagerly()
        assert tf.constant(1.0).numpy() == 1.0
    with cases.eager_mode(tf1):
        assert tf1.executing_eagerly()
    assert not tf1.executing_eagerly()


def test_assertions(case):
    case.assertAllClose({"a": tf.constant([1.0])}, {"a": [1.0 + 1e-8]})
    case.assertAllClose([tf.constant(1.0), [2.0, 3.0]], [1.0, [2.0, 3.0]])
    case.assertAllEqual(tf.constant([1, 2]), [1, 2])
    case.assertAllCloseAccordingToType([1.0004], tf.constant([1.0], tf.float16))
    for wrong in (
        lambda: case.assertAllClose([1.0], [1.1]),
        lambda: case.assertAllClose([[1.0]], [1.0]),
        lambda: case.assertAllClose([1.0, [2.0, 3.0]], [1.0, [2.0, 4.0]]),
        lambda: case.assertAllEqual([1, 2], [1, 3]),
        lambda: case.assertAllEqual([1], 1),
        lambda: case.assertAllCloseAccordingToType([1.0004], [1.0]),
        lambda: case.assertStartsWith("ab", "b"),
    ):
        with pytest.raises(AssertionError):
            wrong()
    with pytest.raises(AssertionError), case.assertRaisesWithPredicateMatch(ValueError, "that"):
        raise ValueError("this")
    with case.assertRaisesWithPredicateMatch(ValueError, lambda error: "this" in str(error)):
        raise ValueError("this")


def test_sessions(case):
    assert case.evaluate({"a": [tf.constant(1.0)]}) == {"a": [1.0]}
    with case.cached_session() as session, pytest.raises(RuntimeError, match="nothing can be fed"):
        session.run(tf.constant(1.0), {1: 2})
    with tf.Graph().as_default():
        x = tf.constant(2.0) * 3.0
        with case.cached_session() as session:
            assert session.run(x) == x.eval() == case.evaluate(x) == 6.0
            case.assertAllClose(x, 6.0)
        with case.cached_session() as again:
            assert again is session
        with case.session() as other:
            assert other is not session


def test_what_is_left_over_is_found(case):
    held = []
    cases.without_new_tensors(lambda self: tf.constant(1.0))(case)
    cases.without_new_objects(lambda self: tf.constant(1.0))(case)
    cases.without_garbage(lambda self: tf.constant(1.0))(case)
    with pytest.raises(AssertionError, match="each run leaves more objects"):
        cases.without_new_objects(lambda self: held.append([tf.constant([1.0])]))(case)

    def cycle(self):
        loop = []
        loop.append(loop)

    with pytest.raises(AssertionError, match="objects hold each other"):
        cases.without_garbage(cycle)(case)


SUITE = """
import os
import time
from tensorflow.python.framework import constant_op, test_util
from tensorflow.python.platform import test

class SomeTest(test.TestCase):
  def testPasses(self):
    self.assertAllClose(constant_op.constant(1.0) * 2.0, 2.0)

  def testFails(self):
    self.assertAllClose(constant_op.constant(1.0) * 2.0, 3.0)

  def testCrashes(self):
    os._exit(1)

  def testHangs(self):
    time.sleep(60)

  @test_util.run_gpu_only
  def testGPU(self):
    pass
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are copied")
def test_each_test_runs_alone(tmp_path):
    path, report = tmp_path / "some_test.py", tmp_path / "report.json"
    path.write_text(SUITE)
    begin = time.monotonic()
    run = [sys.executable, "-c", SCRIPT, str(path), "fgrad.compat.tensorflow", str(report)]
    paths = os.pathsep.join([str(DOCS.parent), str(DOCS.parent / "tools")])
    subprocess.run(run, check=True, env={**os.environ, "PYTHONPATH": paths})
    assert time.monotonic() - begin < 50
    found = json.loads(report.read_text())
    assert {name: kind for name, (kind, _) in found.items()} == {
        "SomeTest.testCrashes": "failed",
        "SomeTest.testFails": "failed",
        "SomeTest.testGPU": "skipped",
        "SomeTest.testHangs": "failed",
        "SomeTest.testPasses": "passed",
    }
    assert found["SomeTest.testHangs"][1] == "it took more than 2 s"
    assert found["SomeTest.testCrashes"][1] == "its process ended before the test"
    assert found["SomeTest.testGPU"][1] == "needs a GPU"


SCRIPT = """
import sys
from tensorflow_tests import worker
worker.PATIENCE = 2.0
worker.main(*sys.argv[1:])
"""


def results(monkeypatch, text):
    """Return results given as text such as "a+ b-", of a file for which a test `out` and one `left` are declared."""
    monkeypatch.setitem(OUTSIDE, ("some_test.py", "T.out"), "strings")
    monkeypatch.setitem(LEFT, ("some_test.py", "T.left"), "the message")
    kinds = {"+": ("passed", ""), "-": ("failed", "Traceback\nValueError: no"), "0": ("skipped", "needs a GPU")}
    return Results(File("some_test.py"), {f"T.{each[:-1]}": kinds[each[-1]] for each in text.split()})


def test_a_failing_test_needs_a_reason(monkeypatch):
    found = results(monkeypatch, "a+ b0 out- left-")
    assert found.is_good
    assert found.outside == {"T.b": "needs a GPU", "T.out": "strings"}
    assert (found.passed, found.failed) == (["T.a"], ["T.left"])
    assert command.row(found) == "| some_test.py | 1 | 1 | 2 |"
    assert not results(monkeypatch, "a- out- left-").is_good
    assert results(monkeypatch, "a- out- left-").unknown == ["T.a"]
    assert not results(monkeypatch, "a+ out- left+").is_good
    assert results(monkeypatch, "a+ out+").outdated == ["T.out", "T.left"]
    assert not Results(File("other_test.py"), problem="no network").is_good


def test_tables(monkeypatch, capsys):
    found = results(monkeypatch, "a+ b0 c- out- left-")
    command.report(found)
    assert "FAILED: T.c: ValueError: no" in capsys.readouterr().out
    lines = command.table([found, results(monkeypatch, "a+ out- left-")])
    assert "| all | 2 | 3 | 3 |" in lines
    assert "| `left`, `left` | the message |" in lines
    assert "| `c` | not known |" in lines
    assert "| strings | 2 |" in lines
    broken = Results(File("other_test.py"), problem="no network")
    assert command.row(broken) == "| other_test.py | no network | | |"


def test_the_page_has_the_tables():
    page = (DOCS / "from-tensorflow.md").read_text()
    assert "make tensorflow-tests" in page
    for file in FILES:
        assert f"| {file.path} | " in page
    for (path, test), reason in LEFT.items():
        assert path in {file.path for file in FILES}
        (line,) = [line for line in page.splitlines() if line.endswith(f" | {reason} |")]
        assert f"`{test.partition('.')[2]}`" in line
    counts = {reason: list(OUTSIDE.values()).count(reason) for reason in OUTSIDE.values()}
    for reason, count in counts.items():
        assert f"| {reason} | {count} |" in page
    rows = re.findall(r"^\| [\w/]+_test\.py \| (\d+) \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    totals = [sum(map(int, column)) for column in zip(*rows, strict=True)]
    assert f"| all | {totals[0]} | {totals[1]} | {totals[2]} |" in page
    assert totals[1] == len(LEFT)


def test_the_commit_is_whole():
    assert re.fullmatch("[0-9a-f]{40}", COMMIT)
    assert files.REPOSITORY == "https://github.com/tensorflow/tensorflow"


def test_finite_differences(case):
    from tensorflow_tests.counterparts import compared_gradients, gradient_error

    derived, measured = compared_gradients(tf, lambda x, y: x * x * y, [[1.0, 2.0], [3.0]], delta=1e-2)
    assert [each.shape for each in derived] == [(2, 2), (1, 2)]
    for one, other in zip(derived, measured, strict=True):
        case.assertAllClose(one, other, rtol=1e-3, atol=1e-3)
    with tf.Graph().as_default(), tf.Session():
        x = tf.placeholder(tf.float32, [2])
        assert gradient_error(tf, x, [2], x * x, [2], [1.0, 2.0], 1e-2) < 1e-3
        wrong = tf.stop_gradient(x) * x
        assert gradient_error(tf, x, [2], wrong, [2], [1.0, 2.0], 1e-2) > 0.5


def test_the_old_accumulator():
    from tensorflow_tests.counterparts import ForwardGradientAccumulator

    x = fg.constant([1.0, 2.0])
    with ForwardGradientAccumulator() as accumulator:
        accumulator.watch(x, fg.constant([1.0, 0.0]))
        y = x * x
    assert accumulator.jvp(y).tolist() == [2.0, 0.0]
    assert accumulator.jvp(fg.constant(1.0)) is None


def test_tests_are_found_in_suites():
    suite = unittest.TestSuite([unittest.TestSuite([Case()]), Case()])
    assert [worker.name_of(test) for test in worker.tests_of(suite)] == ["Case.runTest"] * 2
