"""Train the digits classifier three times: with fgrad, as a TensorFlow 1 graph, and with TensorFlow 2's tape.

    python examples/tensorflow_digits.py

All three begin with the same weights and see the same images in the same order; the first computes with
float64 and the others, as TensorFlow does, with float32. Each function but the first would run under
TensorFlow itself, if the import above it were `import tensorflow.compat.v1 as tf` or `import tensorflow as tf`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from digits import Digits, Network, batches, load
from tqdm import tqdm

import fgrad as fg
import fgrad.compat.tensorflow as tf
import fgrad.compat.tensorflow1 as tf1

RATE = 0.003


class Result(NamedTuple):
    """What a training leads to."""

    scores: np.ndarray  # of the test images: ten numbers for each
    accuracy: float
    loss: float  # over the test images
    weights: list[np.ndarray]


def first_weights(rng: np.random.Generator) -> list[np.ndarray]:
    """Return the weights with which the network of `digits.py` begins."""
    network = Network(rng)
    return [each.numpy() for each in (network.w1, network.b1, network.w2, network.b2)]


def all_batches(digits: Digits, epochs: int, rng: np.random.Generator, title: str) -> Iterator[Digits]:
    """Yield the batches of all epochs."""
    for _ in tqdm(range(epochs), desc=f"{title:24}", unit="epoch"):
        yield from batches(digits, rng)


def with_fgrad(train_set: Digits, test_set: Digits, epochs: int, seed: int) -> Result:
    """Train with fgrad's own functions, as `digits.py` does."""
    rng = np.random.default_rng(seed)
    network = Network(rng)
    optimizer = fg.optimizers.Adam(RATE)
    gradients = fg.implicit_gradients(network.loss)
    for batch in all_batches(train_set, epochs, rng, "fgrad"):
        optimizer.apply_gradients(gradients(batch))
    return Result(
        network.scores(test_set.images).numpy(),
        network.accuracy(test_set),
        float(network.loss(test_set)),
        [each.numpy() for each in (network.w1, network.b1, network.w2, network.b2)],
    )


def with_a_graph(train_set: Digits, test_set: Digits, epochs: int, seed: int) -> Result:
    """Train as one did with TensorFlow 1: describe the computation, then run it in a session."""
    tf = tf1
    rng = np.random.default_rng(seed)
    with tf.Graph().as_default():
        images = tf.placeholder(tf.float32, shape=[None, 64], name="images")
        labels = tf.placeholder(tf.int64, shape=[None], name="labels")
        w1, b1, w2, b2 = weights = [tf.Variable(each, dtype=tf.float32) for each in first_weights(rng)]
        hidden = tf.nn.relu(tf.matmul(images, w1) + b1)
        scores = tf.matmul(hidden, w2) + b2
        right = tf.one_hot(labels, depth=10)
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=right, logits=scores))
        accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(scores, axis=1), labels), tf.float32))
        step = tf.train.AdamOptimizer(RATE).minimize(loss)

        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for batch in all_batches(train_set, epochs, rng, "a graph of TensorFlow 1"):
                session.run(step, feed_dict={images: batch.images, labels: batch.labels})
            feed = {images: test_set.images, labels: test_set.labels}
            return Result(*session.run([scores, accuracy, loss, weights], feed_dict=feed))


def with_a_tape(train_set: Digits, test_set: Digits, epochs: int, seed: int) -> Result:
    """Train as one does with TensorFlow 2: record each step on a tape."""
    rng = np.random.default_rng(seed)
    w1, b1, w2, b2 = weights = [tf.Variable(each, dtype=tf.float32) for each in first_weights(rng)]
    optimizer = tf.compat.v1.train.AdamOptimizer(RATE)

    def scores_of(images: np.ndarray) -> Any:
        hidden = tf.nn.relu(tf.matmul(tf.cast(images, tf.float32), w1) + b1)
        return tf.matmul(hidden, w2) + b2

    def loss_of(scores: Any, labels: np.ndarray) -> Any:
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores))

    for batch in all_batches(train_set, epochs, rng, "a tape of TensorFlow 2"):
        with tf.GradientTape() as tape:
            loss = loss_of(scores_of(batch.images), batch.labels)
        gradients = tape.gradient(loss, weights)
        optimizer.apply_gradients(zip(gradients, weights, strict=True))

    scores = scores_of(test_set.images)
    right = tf.equal(tf.argmax(scores, axis=1), test_set.labels)
    return Result(
        scores.numpy(),
        float(tf.reduce_mean(tf.cast(right, tf.float32))),
        float(loss_of(scores, test_set.labels)),
        [each.numpy() for each in weights],
    )


TRAININGS: dict[str, Callable[[Digits, Digits, int, int], Result]] = {
    "fgrad": with_fgrad,
    "a graph of TensorFlow 1": with_a_graph,
    "a tape of TensorFlow 2": with_a_tape,
}


def main(epochs: int = 10, seed: int = 0) -> dict[str, Result]:
    """Train, test and print.

    Args:
        epochs: passes over the training images.
        seed: of the split, the first weights and the order of the images.
    """
    train_set, test_set = load(seed)
    results, seconds = {}, {}
    for title, training in TRAININGS.items():
        start = time.perf_counter()
        results[title] = training(train_set, test_set, epochs, seed)
        seconds[title] = time.perf_counter() - start
    print(f"{'':24}{'test accuracy':>15}{'test loss':>12}{'dtype':>10}{'time':>9}")
    for title, result in results.items():
        numbers = f"{result.accuracy:>15.2%}{result.loss:>12.5f}{result.scores.dtype!s:>10}{seconds[title]:>7.1f} s"
        print(f"{title:24}{numbers}")
    return results


if __name__ == "__main__":
    main()
