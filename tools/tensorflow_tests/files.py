"""Which tests are run, and what is known of those that do not pass.

FILES      the files, and the namespace that their tests are for
OUTSIDE    tests of what fgrad has no part of, with the reason
LEFT       tests that fail, with the reason
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

REPOSITORY = "https://github.com/tensorflow/tensorflow"
COMMIT = "1cf0898dd4331baf93fe77205550f2c2e6c90ee5"
"""A commit of TensorFlow's branch r2.0, of October 2019."""

EAGER, GRAPH = "fgrad.compat.tensorflow", "fgrad.compat.tensorflow1"


@dataclass(frozen=True)
class File:
    """A file of tests.

    Attributes:
        path: in TensorFlow's repository, from `tensorflow/python` on.
        namespace: the module of fgrad in TensorFlow's place, whose mode is the one in which the file's tests begin.
    """

    path: str
    namespace: str = GRAPH


_OPTIMIZERS = ["adadelta", "adagrad_da", "adagrad", "adam", "ftrl", "gradient_descent", "momentum", "proximal_adagrad"]
FILES = (
    File("eager/backprop_test.py", EAGER),
    File("eager/forwardprop_test.py", EAGER),
    File("ops/gradients_test.py"),
    File("ops/parallel_for/gradients_test.py"),
    File("ops/clip_ops_test.py"),
    File("kernel_tests/clip_ops_test.py"),
    File("training/optimizer_test.py"),
    *(File(f"training/{name}_test.py") for name in (*_OPTIMIZERS, "proximal_gradient_descent", "rmsprop")),
    File("training/learning_rate_decay_test.py"),
    File("training/moving_averages_test.py"),
)

Reasons = Mapping[tuple[str, str], str]


def _by_test(reasons: Mapping[str, Mapping[str, str]]) -> Reasons:
    """Return the reasons by file and test, from names of tests in one string by reason and file."""
    return {
        (path, test): reason
        for reason, by_file in reasons.items()
        for path, tests in by_file.items()
        for test in tests.split()
    }


OUTSIDE = _by_test({})
LEFT = _by_test({})
