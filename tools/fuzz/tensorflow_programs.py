"""Family `tensorflow`: random programs in TensorFlow's spelling, eager and in graph mode, against TensorFlow's answers.

The answers are in `tensorflow_answers.json`, with the version that gave them. `tensorflow_record.py` writes that file,
where TensorFlow is installed; here a program is a seed among those recorded, and it must still be the program that was
recorded. A program is text, which defines `answers`, a list of what it has computed.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import fgrad.compat.tensorflow as tf
import fgrad.compat.tensorflow1 as v1
from fgrad import errors
from fuzz.case import REFUSED, RIGHT, WRONG, Outcome

RECORD = Path(__file__).with_name("tensorflow_answers.json")

# No two of these give the same number, so that nothing ties: there TensorFlow and fgrad differ. Where TensorFlow
# says None of a second derivative, fgrad may have followed a zero; so programs ask for zeros there. TensorFlow drops
# the second derivative by the labels of a cross entropy, so no derivative goes into them.
UNARY = [
    "tf.tanh({0})",
    "tf.sigmoid({0})",
    "tf.sin({0})",
    "tf.exp(-tf.square({0}))",
    "tf.math.softplus({0})",
    "tf.nn.relu({0}) + 0.013 * {0}",
    "tf.nn.elu({0}) + 0.011 * {0}",
    "tf.nn.leaky_relu({0}) + 0.019 * {0}",
    "tf.nn.softmax({0})",
    "tf.nn.log_softmax({0})",
    "tf.sqrt(1.0 + tf.square({0}))",
    "tf.abs({0}) * 1.007",
    "tf.math.log1p(tf.square({0}))",
    "tf.cumsum({0})",
    "tf.clip_by_value({0}, -0.55, 0.55) + 0.017 * {0}",
    "tf.reverse({0}, [0]) * 1.021",
    "tf.gather(1.0 * {0}, [2, 0, 0]) * M[1]",
    "tf.sort({0}) * 1.005",
    "tf.where({0} > 0.25, {0}, 0.5 * {0}) * 1.029",
    "tf.linalg.matvec(M, {0})",
    "tf.math.l2_normalize({0} + 2.0)",
    "tf.stop_gradient({0}) * {0}",
    "tf.concat([{0}[1:], {0}[:1]], 0) * 1.031",
    "tf.reshape(tf.matmul(tf.reshape({0}, [1, 3]), M), [3])",
    "tf.cast(tf.cast({0}, tf.float32), tf.float64) * 1.009",
    "tf.round({0}) + {0}",
]
BINARY = [
    "{0} * {1}",
    "({0} + {1})",
    "({0} - 0.5 * {1})",
    "{0} / (1.5 + tf.square({1}))",
    "tf.maximum({0}, {1}) * 1.037",
    "tf.minimum({0}, {1}) * 1.041",
    "tf.where({0} > {1}, {0}, tf.sin({1})) * 1.003",
    "tf.reduce_sum({0}) * {1}",
    "tf.add_n([{0}, {1}, {0}])",
    "tf.math.squared_difference({0}, {1})",
    "tf.math.atan2({0}, 2.5 + {1})",
    "tf.einsum('i,j->i', {0}, {1})",
    "tf.unstack(tf.stack([{0}, {1}]))[1] * 1.043",
    "tf.cond(tf.reduce_sum({0}) > 0.1, lambda: {0} * {1}, lambda: tf.sin({1}))",
]
LOSSES = [
    "tf.reduce_sum(tf.square({0} - 0.3))",
    "tf.reduce_mean({0} * {1})",
    "tf.nn.l2_loss({0}) + tf.reduce_sum({1})",
    "tf.reduce_logsumexp({0} + {1})",
    "tf.reduce_max({0}) * tf.reduce_min({1})",
    "tf.norm({0} + 2.0)",
    "tf.nn.softmax_cross_entropy_with_logits(labels=tf.nn.softmax(tf.stop_gradient({1})), logits={0})",
    "tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.sigmoid({1}), logits={0}))",
]
# TensorFlow rounds these numbers to single precision, and fgrad does not; so they are ones that need no rounding.
OPTIMIZERS = [
    "v1.train.GradientDescentOptimizer(0.125)",
    "v1.train.MomentumOptimizer(0.125, 0.75)",
    "v1.train.MomentumOptimizer(0.125, 0.75, use_nesterov=True)",
    "v1.train.AdagradOptimizer(0.25, 0.125)",
    "v1.train.AdadeltaOptimizer(0.5, 0.875, 0.0078125)",
    "v1.train.RMSPropOptimizer(0.0625, 0.875, epsilon=0.0009765625)",
    "v1.train.RMSPropOptimizer(0.0625, 0.875, momentum=0.5, epsilon=0.0009765625, centered=True)",
    "v1.train.AdamOptimizer(0.0625, 0.875, 0.984375, 0.0009765625)",
    "v1.train.FtrlOptimizer(0.25, initial_accumulator_value=0.125)",
    "v1.train.FtrlOptimizer(0.25, l1_regularization_strength=0.0625, l2_regularization_strength=0.125)",
]
MATRIX = [[0.4, -0.7, 0.2], [0.9, 0.1, -0.5], [-0.3, 0.6, 0.8]]


class Writer:
    """Writes a program."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.lines: list[str] = []

    def one(self, table: Sequence[str]) -> str:
        return table[int(self.rng.integers(len(table)))]

    def numbers(self) -> str:
        """Return three numbers as text; no two are equal or on a kink."""
        return str([round(round(float(x), 3) + 0.0007, 4) for x in self.rng.uniform(-1.5, 1.5, 3)])

    def statements(self, names: list[str], indent: str) -> str:
        """Write some statements and a loss, and return its name."""
        names = list(names)
        for _ in range(int(self.rng.integers(1, 5))):
            form = self.one(UNARY if self.rng.random() < 0.5 else BINARY)
            new = f"t{len(names)}"
            first, second = (names[place] for place in self.rng.permutation(len(names))[:2])  # no ties
            self.lines.append(f"{indent}{new} = {form.format(first, second)}")
            names.append(new)
        form = self.one(LOSSES)
        also = " + 0.2 * tf.reduce_sum(w * b)" if self.rng.random() < 0.9 else ""
        self.lines.append(f"{indent}loss = {form.format(names[-1], self.one(names))}{also}")
        return "loss"

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def program(seed: int) -> tuple[str, str]:
    """Return the mode and the text of the program that a seed says."""
    writer = Writer(seed)
    if writer.rng.random() < 0.5:
        return "eager", eager(writer)
    return "graph", graph(writer)


def eager(writer: Writer) -> str:
    """Return a program with tapes, assignments and optimizers' steps."""
    lines, rng = writer.lines, writer.rng
    lines += ["answers = []", "ZERO = tf.UnconnectedGradients.ZERO", f"M = tf.constant({MATRIX}, tf.float64)"]
    lines += [f"{name} = tf.Variable({writer.numbers()}, dtype=tf.float64)" for name in ("w", "b")]
    lines += [f"x = tf.constant({writer.numbers()}, tf.float64)", "def loss_of():"]
    writer.statements(["w", "b", "x"], "    ")
    lines += ["    return loss", f"optimizer = {writer.one(OPTIMIZERS)}"]
    for _ in range(int(rng.integers(1, 4))):
        lines += EAGER[int(rng.integers(len(EAGER)))].format(numbers=writer.numbers()).splitlines()
    lines += ["answers += [w.numpy(), b.numpy(), loss_of()]"]
    return writer.text()


EAGER = [
    """with tf.GradientTape() as tape:
    tape.watch(x)
    value = loss_of()
answers += tape.gradient(value, [w, b, x])""",
    """with tf.GradientTape(persistent=True) as tape:
    tape.watch(x)
    value = loss_of()
    slope = tape.gradient(value, w, unconnected_gradients=ZERO)
    bend = tf.reduce_sum(slope * x)
answers += [slope, *tape.gradient(bend, [w, b, x], unconnected_gradients=ZERO), *tape.gradient(value, [x, b])]""",
    """with tf.GradientTape() as outer:
    with tf.GradientTape() as inner:
        value = loss_of()
    slopes = inner.gradient(value, [w, b], unconnected_gradients=ZERO)
    total = tf.reduce_sum(tf.square(slopes[0])) + tf.reduce_sum(slopes[1])
answers += outer.gradient(total, [w, b], unconnected_gradients=ZERO)""",
    """with tf.GradientTape() as tape:
    tape.watch(x)
    value = tf.stack([loss_of(), tf.sin(loss_of())])
answers += tape.jacobian(value, [w, x])""",
    """with tf.GradientTape(watch_accessed_variables=False) as tape:
    tape.watch(b)
    value = loss_of()
answers += tape.gradient(value, [w, b])""",
    """with tf.autodiff.ForwardAccumulator(w, tf.constant({numbers}, tf.float64)) as accumulator:
    value = loss_of()
answers += [value, accumulator.jvp(value, unconnected_gradients=ZERO)]""",
    "w.assign_sub(0.1 * tf.tanh(b))",
    "b.assign(tf.sin(w) * 0.5)",
    "w.assign_add(tf.constant({numbers}, tf.float64))",
    """for _ in range(3):
    optimizer.minimize(loss_of, var_list=[w])
answers += [w.numpy()]""",
    """with tf.GradientTape() as tape:
    value = loss_of()
slopes = tape.gradient(value, [w, b], unconnected_gradients=ZERO)
slopes, norm = tf.clip_by_global_norm(slopes, 0.7)
optimizer.apply_gradients(zip(slopes, [w, b]))
answers += [norm, *slopes]""",
]


def graph(writer: Writer) -> str:
    """Return a program with placeholders, symbolic gradients, training operations and a session."""
    lines, rng = writer.lines, writer.rng
    lines += ["answers = []", "ZERO = tf.UnconnectedGradients.ZERO", f"M = tf.constant({MATRIX}, tf.float64)"]
    lines += [f"{name} = tf.Variable({writer.numbers()}, dtype=tf.float64)" for name in ("w", "b")]
    lines += ["x = tf.placeholder(tf.float64, [3])"]
    writer.statements(["w", "b", "x"], "")
    lines += [
        "slopes = tf.gradients(loss, [w, b, x])",
        "slope = tf.zeros([3], tf.float64) if slopes[0] is None else slopes[0]",
        "bends = tf.gradients(tf.reduce_sum(slope * x), [w, b, x], unconnected_gradients=ZERO)",
        f"partial = tf.gradients(loss, [w], stop_gradients=[{writer.one(['w', 'b', 't3'])}])",
        f"train = {writer.one(OPTIMIZERS)}.minimize(loss, var_list=[w])",
        f"change = {writer.one(['tf.assign(b, tf.sin(w))', 'tf.assign_add(b, 0.1 * x)', 'b.assign_sub(0.2 * w)'])}",
        "with tf.control_dependencies([change]):",
        "    after = tf.identity(w) + b.read_value()",
        "fetched = [y for y in [loss, *slopes, *bends, *partial] if y is not None]",
        "answers += [y is None for y in [*slopes, *bends, *partial]]",
        "with tf.Session() as session:",
        "    session.run(tf.global_variables_initializer())",
    ]
    for _ in range(int(rng.integers(1, 5))):
        step = writer.one(["answers += session.run(fetched, {x: feed})", "session.run(train, {x: feed})", AFTER])
        lines += [f"    feed = {writer.numbers()}", f"    {step}"]
    lines += ["    answers += session.run([w, b])"]
    return writer.text()


AFTER = "answers += [session.run(after, {x: feed})]"


def run_text(mode: str, text: str, eager: Any, deferred: Any) -> list[Any]:
    """Run a program with two modules, of TensorFlow or of fgrad, and return its answers as lists of numbers."""
    names = {"tf": deferred if mode == "graph" else eager, "v1": deferred}
    code = compile(text, "<program>", "exec")
    if mode == "graph":
        with deferred.Graph().as_default():
            exec(code, names)
    else:
        exec(code, names)
    return [None if answer is None else np.asarray(answer).tolist() for answer in names["answers"]]


def digest(text: str) -> str:
    """Return what tells texts apart."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


@functools.cache
def recorded() -> dict[str, Any]:
    """Return the record: `version`, and `programs`: for each seed a digest and the answers, or an error's name."""
    found: dict[str, Any] = json.loads(RECORD.read_text())
    return found


def run(seed: int) -> Outcome:
    """Return what comes of a program of the record."""
    seeds = list(recorded()["programs"])
    chosen = seeds[seed % len(seeds)]
    kept, expected = recorded()["programs"][chosen]
    mode, text = program(int(chosen))
    header = f"# {mode} mode: tf is fgrad.compat.tensorflow{'1' if mode == 'graph' else ''}\n"
    if digest(text) != kept:
        return Outcome(WRONG, header + text, "not the program that was recorded: run tensorflow_record.py")
    try:
        found: Any = run_text(mode, text, tf, tf.compat.v1 if mode == "eager" else v1)
    except Exception as error:
        if expected in [kind.__name__ for kind in type(error).__mro__]:
            return Outcome(RIGHT, header + text)
        kind = REFUSED if isinstance(error, errors.FgradError) else WRONG
        return Outcome(kind, header + text, f"{type(error).__name__}: {error}")
    problem = difference(found, expected)
    return Outcome(WRONG if problem else RIGHT, header + text, problem)


def difference(found: list[Any], expected: Any) -> str:
    """Return how answers differ from TensorFlow's, or nothing."""
    if isinstance(expected, str):
        return f"the program runs; TensorFlow raises {expected}"
    if len(found) != len(expected):
        return f"{len(found)} answers, not {len(expected)}"
    for place, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        if (ours is None) != (theirs is None):
            return f"answer {place} is {ours!r}, not {theirs!r}"
        if theirs is not None and not _near(np.asarray(ours), np.asarray(theirs)):
            return f"answer {place} is {ours!r}, not {theirs!r}"
    return ""


def _near(ours: Any, theirs: Any) -> bool:
    """Return whether two answers are the same to the digits of the record, or of single precision on the way."""
    return ours.shape == theirs.shape and np.allclose(ours, theirs, rtol=1e-6, atol=1e-8, equal_nan=True)
