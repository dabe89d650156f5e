"""Networks: attention, a classifier in single precision, a recurrent one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .kind import Kind
from .libraries import Library

Random = np.random.Generator


# Attention with several heads


def sentence(rng: Random, words: int, width: int, heads: int) -> tuple[Any, ...]:
    """Return the projections of each head, the words, and what is wanted of them."""
    each = width // heads
    scale = 1.0 / np.sqrt(width)
    query, key, value = (scale * rng.normal(size=(heads, width, each)) for _ in range(3))
    output = scale * rng.normal(size=(heads, each, width))
    return query, key, value, output, rng.normal(size=(words, width)), rng.normal(size=(words, width))


def observed(library: Library) -> Callable[..., Any]:
    """Return loss and gradient of attention by its projections."""
    xp = library.numpy

    def loss(query: Any, key: Any, value: Any, output: Any, words: Any, wanted: Any) -> Any:
        q, k, v = words @ query, words @ key, words @ value
        scores = xp.einsum("hqd,hkd->hqk", q, k) / np.sqrt(query.shape[-1])
        scores = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
        weights = scores / xp.sum(scores, axis=-1, keepdims=True)
        result = xp.einsum("hqd,hdw->qw", weights @ v, output)
        return xp.mean((result - wanted) ** 2)

    return library.value_and_grad(loss, (0, 1, 2, 3))


def attention_by_hand(query: Any, key: Any, value: Any, output: Any, words: Any, wanted: Any) -> tuple[Any, ...]:
    """Compute loss and gradient of attention."""
    heads, width, each = query.shape
    scale = 1.0 / np.sqrt(each)
    q, k, v = words @ query, words @ key, words @ value
    weights = q @ k.swapaxes(1, 2)
    weights *= scale
    weights -= weights.max(axis=-1, keepdims=True)
    np.exp(weights, out=weights)
    weights /= weights.sum(axis=-1, keepdims=True)
    joined = (weights @ v).transpose(1, 0, 2).reshape(len(words), heads * each)
    flat_output = output.reshape(heads * each, width)
    error = joined @ flat_output
    error -= wanted
    loss = np.vdot(error, error) / error.size
    error *= 2.0 / error.size
    d_output = (joined.T @ error).reshape(output.shape)
    d_mixed = (error @ flat_output.T).reshape(len(words), heads, each).transpose(1, 0, 2)
    d_value = words.T @ (weights.swapaxes(1, 2) @ d_mixed)
    d_weights = d_mixed @ v.swapaxes(1, 2)
    d_weights -= np.vecdot(d_weights, weights)[..., None]
    d_weights *= weights
    d_weights *= scale
    d_query = words.T @ (d_weights @ k)
    d_key = words.T @ (d_weights.swapaxes(1, 2) @ q)
    return loss, (d_query, d_key, d_value, d_output)


# A classifier of digits, in single precision


def digits(rng: Random, count: int, hidden: int) -> tuple[Any, ...]:
    """Return weights of a network 64-hidden-10, images and their classes."""
    shapes = (((64, hidden), 0.125), ((hidden,), 0.1), ((hidden, 10), 0.1), ((10,), 0.1))
    weights = [(rng.normal(size=shape) * scale).astype(np.float32) for shape, scale in shapes]
    return *weights, rng.normal(size=(count, 64)).astype(np.float32), rng.integers(0, 10, count)


def classifier(library: Library) -> Callable[..., Any]:
    """Return the cross-entropy and its gradient by the weights."""
    xp, logsumexp = library.numpy, library.special.logsumexp

    def loss(w1: Any, b1: Any, w2: Any, b2: Any, images: Any, classes: Any) -> Any:
        scores = xp.tanh(images @ w1 + b1) @ w2 + b2
        return xp.mean(logsumexp(scores, axis=1) - scores[library.constant(np.arange(len(images))), classes])

    return library.value_and_grad(loss, (0, 1, 2, 3))


def classifier_by_hand(w1: Any, b1: Any, w2: Any, b2: Any, images: Any, classes: Any) -> tuple[Any, ...]:
    """Compute the cross-entropy and its gradient."""
    rows = np.arange(len(images))
    h = images @ w1
    h += b1
    np.tanh(h, out=h)
    scores = h @ w2
    scores += b2
    scores -= scores.max(axis=1, keepdims=True)
    right = scores[rows, classes]
    np.exp(scores, out=scores)
    sums = scores.sum(axis=1, keepdims=True)
    loss = (np.log(sums[:, 0]) - right).mean()
    scores /= sums
    scores[rows, classes] -= 1
    scores /= len(images)
    d_hidden = scores @ w2.T
    slope = h * h
    np.subtract(1, slope, out=slope)
    d_hidden *= slope
    return loss, (images.T @ d_hidden, d_hidden.sum(axis=0), h.T @ scores, scores.sum(axis=0))


# A recurrent network


def sequence(rng: Random, steps: int) -> tuple[Any, ...]:
    """Return the weights of an LSTM with 32 units, and 8 sequences of 16 numbers a step."""
    inputs, units, count = 16, 32, 8
    from_input = rng.normal(size=(inputs, 4 * units)) / np.sqrt(inputs)
    from_units = rng.normal(size=(units, 4 * units)) / np.sqrt(units)
    sequences, wanted = rng.normal(size=(steps, count, inputs)), rng.normal(size=(count, units))
    return from_input, from_units, np.zeros(4 * units), sequences, wanted


def recurrent(library: Library) -> Callable[..., Any]:
    """Return the loss at the last step, and its gradient by the weights."""
    xp = library.numpy

    def sigmoid(z: Any) -> Any:
        return 1.0 / (1.0 + xp.exp(-z))

    def loss(from_input: Any, from_units: Any, bias: Any, inputs: Any, wanted: Any) -> Any:
        hidden = cell = library.constant(np.zeros(wanted.shape))
        for each in inputs:
            gates = each @ from_input + hidden @ from_units + bias
            enter, forget, leave, change = xp.split(gates, 4, axis=1)
            cell = sigmoid(forget) * cell + sigmoid(enter) * xp.tanh(change)
            hidden = sigmoid(leave) * xp.tanh(cell)
        return xp.mean((hidden - wanted) ** 2)

    return library.value_and_grad(loss, (0, 1, 2))


def recurrent_by_hand(from_input: Any, from_units: Any, bias: Any, inputs: Any, wanted: Any) -> tuple[Any, ...]:
    """Compute the loss and its gradient; products with the inputs are taken for all steps at once."""
    (steps, count, _), units = inputs.shape, wanted.shape[1]
    gates = inputs @ from_input
    gates += bias
    hiddens, cells, bent = (np.zeros((steps + 1, count, units)) for _ in range(3))
    for t in range(steps):
        now = gates[t]
        now += hiddens[t] @ from_units
        sigmoids, change = now[:, : 3 * units], now[:, 3 * units :]
        np.negative(sigmoids, out=sigmoids)
        np.exp(sigmoids, out=sigmoids)
        sigmoids += 1.0
        np.reciprocal(sigmoids, out=sigmoids)
        np.tanh(change, out=change)
        np.multiply(now[:, units : 2 * units], cells[t], out=cells[t + 1])
        cells[t + 1] += now[:, :units] * change
        np.tanh(cells[t + 1], out=bent[t + 1])
        np.multiply(now[:, 2 * units : 3 * units], bent[t + 1], out=hiddens[t + 1])
    error = hiddens[-1] - wanted
    d_gates = recurrent_back(from_units, gates, cells, bent, error * (2.0 / error.size))
    flat = d_gates.reshape(steps * count, -1)
    d_input = inputs.reshape(steps * count, -1).T @ flat
    d_units = hiddens[:-1].reshape(steps * count, -1).T @ flat
    return np.vdot(error, error) / error.size, (d_input, d_units, flat.sum(axis=0))


def recurrent_back(from_units: Any, gates: Any, cells: Any, bent: Any, d_hidden: Any) -> Any:
    """Return the loss's derivative by what goes into the gates, for all steps."""
    units = cells.shape[2]
    slopes = gates * (1.0 - gates)
    slopes[..., 3 * units :] = 1.0 - gates[..., 3 * units :] ** 2
    bends = 1.0 - bent * bent
    d_gates = np.empty_like(gates)
    d_cell = np.zeros_like(d_hidden)
    for t in range(len(gates) - 1, -1, -1):
        enter, forget, leave, change = (gates[t, :, i * units : (i + 1) * units] for i in range(4))
        now = d_gates[t]
        np.multiply(d_hidden, bent[t + 1], out=now[:, 2 * units : 3 * units])
        d_hidden *= leave
        d_hidden *= bends[t + 1]
        d_cell += d_hidden
        np.multiply(d_cell, change, out=now[:, :units])
        np.multiply(d_cell, cells[t], out=now[:, units : 2 * units])
        np.multiply(d_cell, enter, out=now[:, 3 * units :])
        now *= slopes[t]
        d_cell *= forget
        d_hidden = now @ from_units.T
    return d_gates


KINDS = [
    Kind("attention", ((8, 16, 2), (64, 64, 4), (256, 128, 8)), sentence, observed, attention_by_hand),
    Kind("digits, float32", ((32, 32), (64, 128), (1797, 128)), digits, classifier, classifier_by_hand),
    Kind("LSTM", ((32,), (128,), (512,)), sequence, recurrent, recurrent_by_hand, compiled=1),
]
