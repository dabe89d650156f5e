"""Programs in two parts, the run and the pass back: what is handed on between them."""

import numpy as np
import pytest

import fgrad as fg
from fgrad.graphs.derived import Directions, computed, recorded_block

X = np.linspace(0.1, 0.9, 100)


def both_ways(x, w):
    y = x * 2.0
    return np.sum(y.reshape(10, 10).T * w) + np.sum(y * w.reshape(100))


# The function, its second argument, shapes of what the run hands on, and which arguments the pass back takes itself.
HANDED_ON = {
    "a part of what is larger": (lambda x, w: np.sum((x * 2.0)[:3] * w), np.arange(3.0), [(3,)], [1]),
    "a part of an argument": (lambda x, w: np.sum(x[:3] * w), np.arange(3.0), [], [0, 1]),
    "the same turned": (both_ways, np.arange(100.0).reshape(10, 10), [(100,)], [1]),
    "a part of a part": (
        lambda x, w: np.sum((x * 2.0)[:50].reshape(5, 10)[:, :2] * w), np.arange(10.0).reshape(5, 2), [(5, 2)], [1]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HANDED_ON)
def test_a_view_is_taken_again_where_what_it_is_of_is_no_larger(name):
    function, w, shapes, places = HANDED_ON[name]
    leaves = [X, w]
    parted = Directions(recorded_block(function, leaves), (True, True), (True,), leaves).parted()
    assert [each.shape for each in parted.forward.outputs[1:]] == shapes
    assert parted.places == places
    value, *kept = computed(parted.forward, leaves)
    gradients = computed(parted.backward, [*kept, *(leaves[place] for place in places), np.ones(())])
    expected = fg.value_and_grad(function, argnums=(0, 1))(*leaves)
    for found, wanted in zip([value, *gradients], [expected[0], *expected[1]], strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-13)
