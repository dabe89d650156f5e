"""Run each test of one file alone: `python -m tensorflow_tests.worker FILE NAMESPACE REPORT`.

Every test runs in a process of its own, a copy of one that has imported everything, so that one that crashes or does
not end stops nothing else.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import multiprocessing
import re
import sys
import traceback
import unittest
import warnings
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tensorflow_tests import cases
from tensorflow_tests.counterparts import elsewhere
from tensorflow_tests.names import installed

PATIENCE = 120.0
"""The seconds after which a test is stopped."""

Outcome = tuple[str, str]
"""What came of a test: "passed", "skipped" or "failed", and why."""


def tests_of(suite: Any) -> Iterator[unittest.TestCase]:
    """Yield the tests of a suite."""
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from tests_of(each)
        elif each._testMethodName != "test_session":
            yield each


def name_of(test: unittest.TestCase) -> str:
    """Return the class and the method of a test."""
    return f"{type(test).__name__}.{test._testMethodName}"


def loaded(path: Path) -> Any:
    """Return the module of a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def outcome_of(test: unittest.TestCase) -> Outcome:
    """Run a test, and return what came of it."""
    result = unittest.TestResult()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        test.run(result)
    problems = [text for _, text in (*result.errors, *result.failures)]
    if problems:
        return "failed", problems[0]
    return ("skipped", result.skipped[0][1]) if result.skipped else ("passed", "")


def _send(test: unittest.TestCase, channel: Connection) -> None:
    try:
        channel.send(outcome_of(test))
    except BaseException:
        channel.send(("failed", traceback.format_exc()))


def run_alone(test: unittest.TestCase) -> Outcome:
    """Run a test in a process of its own."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(test, sender))
    process.start()
    sender.close()
    try:
        if not receiver.poll(PATIENCE):
            process.kill()
            return "failed", f"it took more than {PATIENCE:g} s"
        found: Outcome = receiver.recv()
        return found
    except EOFError:
        return "failed", "its process ended before the test"
    finally:
        process.join()
        receiver.close()


def main(path: str, namespace: str, report: str, chosen: str = "") -> int:
    """Run the tests of a file, and write what came of each."""
    tf = importlib.import_module(namespace)
    cases.TestCase.tf = tf
    with installed(namespace, elsewhere(tf)):
        suite = unittest.defaultTestLoader.loadTestsFromModule(loaded(Path(path)))
        tests = [test for test in tests_of(suite) if re.search(chosen, name_of(test))]
        outcomes = {name_of(test): run_alone(test) for test in tests}
    Path(report).write_text(json.dumps(outcomes, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
