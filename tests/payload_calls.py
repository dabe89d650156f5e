"""Sample calls of primitives on arrays of other libraries, and what becomes of them: the value and both derivatives."""

import numpy as np
from primitive_names import EVERY_SHAPE

import fgrad as fg
from fgrad import errors
from fgrad.core.primitive import PRIMITIVES
from fgrad.testing import calls


def examples(name):
    """Return the sample call of a primitive with the most axes, of those that have elements.

    Before it there is the first one, where shapes are treated by the operation itself, in NumPy's own code.
    """
    found = [call for call in calls(PRIMITIVES[name], np.float64) if all(x.size for x in call.arrays)]
    found = sorted(found, key=lambda call: sum(100 * x.ndim + x.size for x in call.arrays))
    primitive = PRIMITIVES[name]
    apart = name in EVERY_SHAPE or not (primitive.is_elementwise or "scipy" in str(primitive.implementation))
    return [found[0], found[-1]] if len(found) > 1 and apart else found[-1:]


def value(call, arrays):
    return call.function(*map(fg.constant, arrays))


def cotangents(call, arrays):
    """Return the value, too, as `tangents` does."""
    result, pullback = fg.vjp(call.function, *arrays)
    return result, pullback(tuple(map(np.ones_like, result)) if isinstance(result, tuple) else np.ones_like(result))


def tangents(call, arrays):
    return fg.jvp(call.function, arrays, arrays)


def tried(way, call, arrays, library):
    """Return what becomes of a call on arrays of a library, and the result."""
    try:
        return "works", way(call, arrays)
    except (errors.PayloadError, errors.ShapeError) as error:
        said = f"does not work on an array of {library}: ", f"an array of {library} has the shape"
        return "refused" if any(each in str(error) for each in said) else str(error), None


def shown(tree):
    """Return the arrays in a container of tensors, not computed."""
    return [leaf._shown() if isinstance(leaf, fg.Tensor) else leaf for leaf in fg.tree_leaves(tree)]
