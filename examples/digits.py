"""Learn to read handwritten digits: a two-layer network on scikit-learn's bundled images.

    python examples/digits.py

trains on four fifths of the 1797 images, tests on the rest, and writes two pictures to `out/`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import fgrad as fg
from fgrad.scipy.special import logsumexp

HIDDEN = 256
BATCH = 32
NOISE = 0.2


class Digits(NamedTuple):
    """Images, one per row with pixels between 0 and 1, and the digits that they show."""

    images: np.ndarray
    labels: np.ndarray


class Epoch(NamedTuple):
    """What is measured after each pass over the images."""

    train_loss: float
    test_loss: float
    train_accuracy: float
    test_accuracy: float


def load(seed: int) -> tuple[Digits, Digits]:
    """Return four fifths of the images to learn from and one fifth for the test, digits in equal shares."""
    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        images / 16, labels, test_size=0.2, stratify=labels, random_state=seed
    )
    return Digits(train_x, train_y), Digits(test_x, test_y)


class Network:
    """Two layers; what is negative between them becomes 0."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.w1 = fg.Variable(rng.normal(size=(64, HIDDEN)) / np.sqrt(64), name="w1")
        self.b1 = fg.Variable(np.zeros(HIDDEN), name="b1")
        self.w2 = fg.Variable(rng.normal(size=(HIDDEN, 10)) / np.sqrt(HIDDEN), name="w2")
        self.b2 = fg.Variable(np.zeros(10), name="b2")

    def scores(self, images: np.ndarray) -> Any:
        """Return ten numbers for each image; the largest stands for the network's answer."""
        return np.maximum(images @ self.w1 + self.b1, 0) @ self.w2 + self.b2

    def loss(self, digits: Digits) -> Any:
        """Return the cross-entropy: the mean of -log(probability of the right answer)."""
        scores = self.scores(digits.images)
        right = scores[np.arange(len(digits.labels)), digits.labels]
        return np.mean(logsumexp(scores, axis=1) - right)

    def answers(self, images: np.ndarray) -> np.ndarray:
        """Return the digit that the network sees in each image."""
        return np.argmax(self.scores(images), axis=1).numpy()

    def accuracy(self, digits: Digits) -> float:
        """Return the share of right answers."""
        return float(np.mean(self.answers(digits.images) == digits.labels))


def batches(digits: Digits, rng: np.random.Generator) -> Iterator[Digits]:
    """Yield all images in a random order, a few at a time, with noise so that they are not learnt by heart."""
    order = rng.permutation(len(digits.labels))
    for start in range(0, len(order), BATCH):
        chosen = order[start : start + BATCH]
        images = digits.images[chosen]
        yield Digits(images + NOISE * rng.normal(size=images.shape), digits.labels[chosen])


def train(network: Network, train_set: Digits, test_set: Digits, epochs: int, rng: np.random.Generator) -> list[Epoch]:
    """Train the network with Adam, and return what was measured after each epoch."""
    value_and_gradients = fg.implicit_value_and_gradients(network.loss)
    optimizer = fg.optimizers.Adam(learning_rate=0.003)
    history = []
    with tqdm(range(epochs), desc="training", unit="epoch") as bar:
        for _ in bar:
            for batch in batches(train_set, rng):
                loss, pairs = value_and_gradients(batch)
                optimizer.apply_gradients(pairs)
            history.append(
                Epoch(
                    float(network.loss(train_set)),
                    float(network.loss(test_set)),
                    network.accuracy(train_set),
                    network.accuracy(test_set),
                )
            )
            bar.set_postfix_str(f"loss {loss:.4f}, test accuracy {history[-1].test_accuracy:.1%}")
    return history


def gradient_error(network: Network, digits: Digits, rng: np.random.Generator, count: int = 50) -> float:
    """Return how far gradients are from central differences, relative, over some elements of each variable."""
    step = 1e-5
    exact, measured = [], []
    for gradient, variable in fg.implicit_gradients(network.loss)(digits):
        value = variable.numpy()
        for place in rng.choice(value.size, min(count, value.size), replace=False):
            shift = np.zeros_like(value)
            shift.flat[place] = step
            variable.assign(value + shift)
            above = float(network.loss(digits))
            variable.assign(value - shift)
            below = float(network.loss(digits))
            exact.append(gradient.numpy().flat[place])
            measured.append((above - below) / (2 * step))
        variable.assign(value)
    return float(np.linalg.norm(np.subtract(exact, measured)) / np.linalg.norm(measured))


def draw_learning_curve(history: list[Epoch], path: Path) -> None:
    """Draw the loss and the share of wrong answers over the epochs."""
    epochs = np.arange(1, len(history) + 1)
    curves = Epoch(*np.transpose(history))
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, loss, accuracy in (
        ("training images", curves.train_loss, curves.train_accuracy),
        ("test images", curves.test_loss, curves.test_accuracy),
    ):
        left.plot(epochs, loss, marker=".", label=name)
        right.plot(epochs, 100 * (1 - np.asarray(accuracy)), marker=".", label=name)
    left.set(title="cross-entropy", xlabel="epoch", yscale="log")
    right.set(title="images read wrongly (%)", xlabel="epoch")
    right.set_ylim(bottom=0)
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, dpi=120)


def draw_mistakes(digits: Digits, answers: np.ndarray, path: Path) -> int:
    """Draw the images that were read wrongly, and return how many there are."""
    wrong = np.flatnonzero(answers != digits.labels)
    rows = max(1, -(-len(wrong) // 8))
    columns = max(3, -(-len(wrong) // rows))
    figure = Figure(figsize=(1.4 * columns, 1.75 * rows + 0.5), layout="constrained")
    figure.suptitle(f"{len(wrong)} of {len(answers)} test images were read wrongly")
    for axes in figure.subplots(rows, columns, squeeze=False).flat[len(wrong) :]:
        axes.axis("off")
    for axes, place in zip(figure.axes, wrong, strict=False):
        axes.imshow(digits.images[place].reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        axes.set(title=f"{digits.labels[place]}, read as {answers[place]}", xticks=[], yticks=[])
    figure.savefig(path, dpi=120)
    return len(wrong)


def main(out: str = "out", epochs: int = 40, seed: int = 0) -> dict[str, Any]:
    """Train, test, draw and print.

    Args:
        out: the folder for the pictures.
        epochs: passes over the training images.
        seed: of the split, the first weights and the order of the images.
    """
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    train_set, test_set = load(seed)
    network = Network(rng)
    error = gradient_error(network, Digits(*(each[:BATCH] for each in train_set)), rng)

    start = time.perf_counter()
    history = train(network, train_set, test_set, epochs, rng)
    seconds = time.perf_counter() - start

    draw_learning_curve(history, folder / "learning_curve.png")
    mistakes = draw_mistakes(test_set, network.answers(test_set.images), folder / "mistakes.png")
    accuracy = history[-1].test_accuracy
    print(f"test accuracy       {accuracy:.2%} ({mistakes} of {len(test_set.labels)} images read wrongly)")
    print(f"training time       {seconds:.1f} s for {epochs} epochs of {len(train_set.labels)} images")
    print(f"gradient error      {error:.1e} relative, against central differences at the first step")
    print(f"pictures            {folder / 'learning_curve.png'}, {folder / 'mistakes.png'}")
    return {
        "accuracy": accuracy,
        "mistakes": mistakes,
        "seconds": seconds,
        "gradient_error": error,
        "history": history,
    }


if __name__ == "__main__":
    main()
