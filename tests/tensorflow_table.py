"""Names and behaviours of TensorFlow that programs and TensorFlow's own tests rely on, with what they give here.

    python tests/tensorflow_table.py                print the table of `docs/from-tensorflow.md`
    python tests/tensorflow_table.py tensorflow     run the same lines with TensorFlow, and print what is different

A row is a program, and what its last line gives. `eager` rows run as in TensorFlow 2, `graph` rows in graph mode, where
`run` runs a tensor after the variables have got their values.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import sys
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from fgrad.compat.tensorflow.contrib import eager as gradient_functions

GRAPH = "graph"


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes:
        mode: eager or graph.
        lines: the program; the value of its last line is the result.
    """

    mode: str
    lines: tuple[str, ...]


PROGRAMS = """
# graph
x = tf.constant([1.0, 2.0])
with tf.GradientTape(persistent=True) as tape:
    tape.watch(x)
    y = x * x[0]
run(tape.jacobian(y, x))

# graph
x = tf.constant([[1.0], [2.0]])
with tf.GradientTape(persistent=True) as tape:
    tape.watch(x)
    y = x * x
run(tape.batch_jacobian(y, x))

# graph
w = tf.Variable(1.0)
run(tf.train.GradientDescentOptimizer(0.5).minimize(lambda: w * w))
run(w)

# graph
y = tf.Variable(3.0) * 2.0
optimizer = tf.train.AdamOptimizer()
run([g for g, _ in optimizer.compute_gradients(y * y, [y])])

# graph
w = tf.Variable(3.0)
optimizer = tf.train.AdamOptimizer()
run([g for g, _ in tf.train.Optimizer.compute_gradients(optimizer, w * w, [w])])

# eager
@tf.function
def f(x):
    return tf.gradients(x * x, x)[0]
f(tf.constant(3.0)).numpy()

# eager
@tf.custom_gradient
def f(x):
    assert x.numpy() == 2.0
    return x * x, lambda dy: dy
f(tf.constant(2.0)).numpy()

# eager
class Scale:
    @tf.custom_gradient
    def times(self, x):
        return 3.0 * x, lambda dy: dy
Scale().times(tf.constant(2.0)).numpy()

# eager
@tf.custom_gradient
def f(x):
    return {'b': [x['a'], x['a'] * 2.0]}, lambda *dys: {'a': dys[0]}
[float(y) for y in f({'a': tf.constant(2.0)})['b']]

# eager
@tf.custom_gradient
def f(x):
    return x
f(tf.constant(2.0))

# eager
@tf.custom_gradient
def f(x):
    return x * 1.0, lambda dy: (dy, dy)
x = tf.constant(2.0)
with tf.GradientTape() as tape:
    tape.watch(x)
    y = f(x)
tape.gradient(y, x)

# eager
w = tf.Variable(1.0, constraint=lambda x: tf.minimum(x, 1.5))
optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
optimizer.minimize(lambda: -w)
float(w)

# eager
w = tf.Variable([1.0, 2.0])
optimizer = tf.compat.v1.train.MomentumOptimizer(0.1, 0.5)
optimizer.minimize(lambda: tf.reduce_sum(w))
slot = optimizer.get_slot(w, 'momentum')
optimizer.minimize(lambda: tf.reduce_sum(w))
slot.numpy()

# eager
w = tf.Variable([1.0, 2.0], name='w')
optimizer = tf.compat.v1.train.AdamOptimizer()
optimizer.minimize(lambda: tf.reduce_sum(w))
sorted(v.name for v in optimizer.variables())

# graph
w = tf.Variable(1.0)
train = tf.train.AdadeltaOptimizer(1.0, rho=1.0).minimize(w * w)
run(train)
run(w)

# graph
w = tf.Variable(1.0)
train = tf.train.AdamOptimizer(0.1, beta1=0.5, beta2=0.0).minimize(w * w)
run(train)
run(w)

# graph
w = tf.Variable(1.0, dtype=tf.float16)
train = tf.train.MomentumOptimizer(2.0, 0.9).minimize(w * w)
run(train)
run(w)

# graph
w = tf.Variable(1.0)
tf.train.GradientDescentOptimizer(0.1).minimize(w * w) in tf.get_collection(tf.GraphKeys.TRAIN_OP)

# eager
w = tf.Variable([1.0, 2.0])
optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
rows = tf.IndexedSlices(tf.constant([1.0, 1.0]), tf.constant([1, 1]))
optimizer.apply_gradients([(rows, w)])
w.numpy()

# graph
w = tf.Variable(1.0, name='w')
ema = tf.train.ExponentialMovingAverage(0.9)
ema.apply([w])
sorted(ema.variables_to_restore())

# graph
w = tf.Variable(1.0, name='w')
ema = tf.train.ExponentialMovingAverage(0.9)
ema.apply([w])
[v.name for v in tf.moving_average_variables()]

# eager
x = tf.constant(2.0)
with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as acc:
    y = x * x
acc.jvp(tf.constant(1.0))

# graph
run(tf.placeholder_with_default([1.0, 2.0], [None]) * 2.0)

# eager
(tf.compat.v1.placeholder_with_default([1.0], [None]) * 2.0).numpy()

# graph
run(tfe.gradients_function(lambda x: x * x)(tf.constant(3.0)))

# eager
[g.numpy() for g in tfe.gradients_function(lambda x: tf.reduce_sum(x * x))([[1.0]])]

# eager
x = tf.zeros([2, 3])
x.shape.as_list()

# eager
x = tf.zeros([2, 3])
x.dtype.as_numpy_dtype

# eager
tf.float32.as_numpy_dtype, tf.complex64.is_complex, tf.float32.is_complex

# eager
x = tf.zeros([2, 3])
x.get_shape().as_list()

# graph
x = tf.placeholder(tf.float32, [None, 3])
x.get_shape().as_list()

# eager
w = tf.Variable(1.0)
w.initializer is None

# eager
x, i = tf.constant([2.0, 3.0, 4.0]), tf.constant([0, 0, 1])
tf.math.segment_prod(x, i).numpy(), tf.math.segment_min(x, i).numpy(), tf.math.segment_max(x, i).numpy()

# eager
tf.math.nextafter(tf.constant(1.0, tf.float64), 2.0).numpy() > 1.0

# eager
x = tf.reshape(tf.range(8.0), [1, 2, 2, 2])
k = tf.ones([2, 2, 2, 1])
tf.nn.depthwise_conv2d(x, k, [1, 1, 1, 1], 'VALID').numpy().ravel()

# eager
tf.vectorized_map(lambda x: x * x, tf.constant([1.0, 2.0])).numpy()

# eager
x = tf.constant([1.0, 2.0])
with tf.GradientTape(persistent=True) as tape:
    tape.watch(x)
    y = tf.grad_pass_through(tf.math.ceil)(x * 1.5)
tape.gradient(y, x).numpy()

# graph
x = tf.placeholder(tf.float32, [None])
feed = {x: [1.0, 2.0]}
run(tf.reshape(x, [-1, 1]))

# graph
x = tf.placeholder(tf.float32, [None])
feed = {x: [1.0, 2.0]}
run(tf.reshape(x, [tf.shape(x)[0], 1]))

# graph
x = tf.placeholder(tf.float32, [None, 3])
tf.reshape(x, [2, -1]).shape.as_list()

# graph
x = tf.placeholder(tf.float32, [None])
feed = {x: [1.0, 2.0]}
y = tf.gather(x, [1, 1])
run(y), run(tf.convert_to_tensor(tf.gradients(2.0 * y, x)[0]))
"""
"""The programs, each with its mode in its first line."""

ROWS = [
    Row(lines[0].removeprefix("# "), (*lines[1:],)) for lines in map(str.splitlines, PROGRAMS.strip().split("\n\n"))
]


def library(name: str, mode: str) -> Any:
    """Return the module that `tf` stands for."""
    if name == "fgrad":
        return importlib.import_module("fgrad.compat.tensorflow" + "1" * (mode == GRAPH))
    return importlib.import_module("tensorflow.compat.v1" if mode == GRAPH else "tensorflow")


def result(row: Row, name: str) -> str:
    """Return what a row gives with one of the libraries, in the form of the table."""
    tf = library(name, row.mode)
    with contextlib.ExitStack() as stack:
        names: dict[str, Any] = {"tf": tf, "tfe": gradient_functions}
        if row.mode == GRAPH:
            stack.enter_context(tf.Graph().as_default())
            names["run"] = _Runner(tf, stack, names)
        try:
            exec("\n".join(row.lines[:-1]), names)
            return repr(shown(eval(row.lines[-1], names)))
        except Exception as error:
            return f"raises {builtin_of(error).__name__}"


class _Runner:
    """Runs tensors of a graph in one session, which it begins with the first of them."""

    def __init__(self, tf: Any, stack: contextlib.ExitStack, names: dict[str, Any]) -> None:
        self._tf, self._stack, self._names = tf, stack, names
        self._session: Any = None

    def __call__(self, fetches: Any) -> Any:
        if self._session is None:
            self._session = self._stack.enter_context(self._tf.Session())
            self._session.run(self._tf.global_variables_initializer())
        return self._session.run(fetches, self._names.get("feed"))


def builtin_of(error: Exception) -> type:
    """Return the class of Python's own that an error belongs to."""
    return next(cls for cls in type(error).__mro__ if cls.__module__ == "builtins")


def shown(value: Any) -> Any:
    """Return a result without the types of the library, and with numbers of six digits."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(shown, value))
    if isinstance(value, type) or value is None or isinstance(value, (str, bool, np.bool_)):
        return value.__name__ if isinstance(value, type) else bool(value) if isinstance(value, np.bool_) else value
    found = np.asarray(value)
    return found.tolist() if found.dtype.kind in "iu" else np.vectorize(lambda x: float(f"{x:.6g}"))(found).tolist()


def table() -> list[str]:
    """Return the lines of the table."""
    lines = ["| mode | program | gives |", "| --- | --- | --- |"]
    for row in ROWS:
        program = "<br>".join(f"`{line}`" for line in row.lines)
        lines.append(f"| {row.mode} | {program} | `{result(row, 'fgrad')}` |")
    return lines


def differences() -> list[str]:
    """Return the rows that give something else with TensorFlow itself."""
    rows = [row for row in ROWS if "tfe." not in row.lines[-1]]  # which TensorFlow 2 has no more
    found = [(row, result(row, "fgrad"), result(row, "tensorflow")) for row in rows]
    return [f"{row.lines[-1]}: {theirs} with TensorFlow, {mine} here" for row, mine, theirs in found if mine != theirs]


def main() -> int:
    """Print the table, or what is different in TensorFlow."""
    parser = argparse.ArgumentParser(description="Names and behaviours of TensorFlow, as they are here.")
    parser.add_argument("beside", nargs="?", choices=["tensorflow"], help="print what is different there")
    beside = parser.parse_args().beside
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lines = differences() if beside else table()
    print("\n".join(lines))
    return 1 if beside and lines else 0


if __name__ == "__main__":
    sys.exit(main())
