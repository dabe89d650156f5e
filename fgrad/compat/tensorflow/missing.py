"""Messages for TensorFlow names that fgrad does not have."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable
from typing import Any

from fgrad import errors

_INSTEAD = {
    "losses": "tf.reduce_mean(tf.square(y - labels)), for example; cross entropies are in tf.nn",
    "logging": "Python's warnings and logging",
    "app": "call main() yourself",
    "flags": "Python's argparse",
    "keras": "a model is a function of variables, and fg.optimizers trains it",
    "optimizers": "tf.train.AdamOptimizer and the others of tf.train, or fg.optimizers",
    "print": "Python's print eagerly; in a graph, fetch the tensor",
    "Print": "Python's print eagerly; in a graph, fetch the tensor",
    "layers": "a layer is a function of variables: tf.nn.relu(tf.matmul(x, w) + b)",
    "estimator": "write the training loop: optimizer.minimize(loss)",
    "data": "iterate over NumPy arrays, rows[i : i + batch_size]",
    "io": "read files with NumPy and Python",
    "image": "use NumPy, SciPy (scipy.ndimage) or Pillow",
    "summary": "collect values in lists and plot them with matplotlib",
    "saved_model": "fg.save(path, {'w': w}) and fg.load(path)",
    "Checkpoint": "fg.save(path, {'w': w}) and fg.load(path)",
    "distribute": "fgrad runs in one process",
    "string": "Python's own strings",
    "strings": "Python's own strings",
    "sparse": "fgrad's tensors are dense",
    "SparseTensor": "fgrad's tensors are dense",
    "ragged": "a list of tensors is a container that gradients follow",
    "py_func": "eagerly, call the function; in a graph, feed its result",
    "autograph": "Python's control flow works without conversion",
    "test": "pytest and fg.testing.check_grads",
    "gradient_checker": "fg.testing.check_grads",
    "fft": "numpy.fft",
    "signal": "numpy.fft and scipy.signal",
}
"""Alternatives in fgrad for well-known names."""


def missing(module: str) -> Callable[[str], Any]:
    """Return a module's `__getattr__`, which explains missing names."""

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        raise errors.MissingNameError(f"{module} has no {name!r}{_advice(module, name)}")

    return __getattr__


def _is_own(value: object) -> bool:
    """Return whether a name in a module is a TensorFlow function or class."""
    return callable(value) and (getattr(value, "__module__", None) or "").startswith("fgrad.compat")


def _advice(module: str, name: str) -> str:
    if name in _INSTEAD:
        return f". Instead: {_INSTEAD[name]}."
    root = module.partition("tensorflow")[0] + "tensorflow"
    elsewhere = sorted(
        other.removeprefix(root).lstrip(".")
        for other, found in sys.modules.items()
        if other.startswith(root + ".") and other != module and _is_own(vars(found).get(name))
    )
    if elsewhere:
        return f"; there is tf.{elsewhere[0]}.{name}."
    near = difflib.get_close_matches(name, [each for each in vars(sys.modules[module]) if not each.startswith("_")])
    if near:
        return f"; did you mean {' or '.join(near)}?"
    return ". NumPy's functions work on its tensors when they are eager; `dir()` of the module lists its names."
