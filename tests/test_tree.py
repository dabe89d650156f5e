"""Containers as users handle them: `fgrad.tree`."""

import dataclasses

import jax.flatten_util
import numpy as np
import pytest

import fgrad as fg
from fgrad import errors, tree
from fgrad.core.tree import outline
from fgrad.testing import check_grads

TREES = {
    "a number": 2.0,
    "an array": np.arange(6.0).reshape(2, 3),
    "single precision": {"w": np.ones((2, 2), np.float32), "b": np.float32(1.0)},
    "mixed": [np.ones(2, np.float32), (np.arange(3.0), 4.0), {"z": 1.0}],
    "complex beside real": (np.array([1 + 2j, 3.0]), np.ones(2)),
    "empty arrays": {"a": np.ones((0, 2)), "b": np.ones(1)},
    "nothing": {},
}


@pytest.mark.parametrize("name", TREES)
def test_a_tree_comes_back_from_its_vector(name):
    given = TREES[name]
    vector, unravel = tree.ravel(given)
    assert vector.ndim == 1
    again = unravel(vector)
    assert tree.structure(again) == tree.structure(given)
    for found, leaf in zip(tree.leaves(again), tree.leaves(given), strict=True):
        assert np.asarray(found).dtype == np.asarray(leaf).dtype
        np.testing.assert_array_equal(found, leaf)
    with jax.enable_x64(True):  # whose order is the same
        np.testing.assert_array_equal(vector, jax.flatten_util.ravel_pytree(given)[0])


def test_integers_become_floating_point_numbers():
    vector, unravel = tree.ravel({"n": 3, "flags": np.array([True, False])})
    assert vector.dtype == np.float64
    assert {key: np.asarray(x).dtype for key, x in unravel(vector).items()} == {"n": np.float64, "flags": np.float64}


def loss(params):
    return np.sum(params["w"] ** 2 * np.sin(params["b"])) + params["c"][0]


def test_both_ways_are_differentiable_under_every_transform():
    params = {"w": np.array([[1.0, 2.0]]), "b": 0.5, "c": [3.0]}
    vector, unravel = tree.ravel(params)
    check_grads(lambda v: loss(unravel(v)), (vector,))
    check_grads(lambda p: np.sum(tree.ravel(p)[0] ** 3), (params,))
    np.testing.assert_array_equal(fg.grad(lambda v: loss(unravel(v)))(vector), tree.ravel(fg.grad(loss)(params))[0])
    batch = np.stack([vector, 2 * vector])
    np.testing.assert_allclose(fg.vmap(lambda v: loss(unravel(v)))(batch), [loss(unravel(v)) for v in batch])
    assert fg.compile(lambda v: loss(unravel(v)))(vector) == pytest.approx(loss(params))
    with fg.GradientTape() as tape:
        tape.watch(x := fg.constant(vector))
        y = loss(unravel(x))
    assert tape.gradient(y, x).shape == vector.shape


def test_what_is_no_number_and_vectors_of_another_length():
    with pytest.raises(errors.NonNumericInputError, match=r"tree\['name'\] is 'x' of type str"):
        tree.ravel({"name": "x", "w": 1.0})
    _, unravel = tree.ravel([1.0, np.ones(3)])
    with pytest.raises(errors.ShapeError, match=r"4 numbers in total, and it was given an array of shape \(3,\)"):
        unravel(np.ones(3))


def test_groups_of_names_are_those_of_fgrad():
    for group in (fg.loops, fg.sparse, fg.uncertainty):
        for name in group.__all__:
            assert getattr(group, name) is getattr(fg, name)
    assert tree.map(lambda x: x * 2, [1, (2,)]) == fg.tree_map(lambda x: x * 2, [1, (2,)]) == [2, (4,)]
    assert tree.leaves([1, (2,)]) == fg.tree_leaves([1, (2,)]) == [1, 2]


@dataclasses.dataclass
class Layer:
    weight: object


fg.register_dataclass(Layer)


def test_a_structure_is_told_as_it_is_written_with_a_star_for_each_leaf():
    assert outline((1.0, [2.0, None], {"a": 3.0})) == "(*, [*, None], {'a': *})"
    assert outline((Layer(1.0), 2.0)) == "(CustomTreeNode(Layer[()], [*]), *)"
    with pytest.raises(errors.SeedError, match=r"has the structure \[\*\], and the result \{'a': \*\}\."):
        fg.vjp(lambda x: {"a": x}, 1.0)[1]([1.0])
    with pytest.raises(errors.TangentError, match=r"structure \(\*,\), and the tangents \(\(\*,\),\); they must"):
        fg.jvp(np.sin, (1.0,), ((1.0,),))
