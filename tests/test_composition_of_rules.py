"""`checkpoint`, `custom_vjp`, `custom_jvp` and `trace` between all other transforms.

Each of them leaves a function as it is, so a composition has the closed form of the composition
without it. The adapters and closed forms are those of `test_composition.py`.
"""

import pytest
from test_composition import CASES, TRANSFORMS, compare, expected, transform_by_name

import fgrad as fg


def by_custom_vjp(f):
    wrapped = fg.custom_vjp(f)

    def bwd(residuals, ct):
        return fg.vjp(f, residuals)[1](ct)

    wrapped.defvjp(lambda x: (f(x), x), bwd)
    return wrapped


def by_custom_jvp(f):
    wrapped = fg.custom_jvp(f)
    wrapped.defjvp(lambda primals, tangents: fg.jvp(f, primals, tangents))
    return wrapped


def by_trace(f):
    return lambda x: fg.trace(f)(x)(x)


SAME = {"checkpoint": fg.checkpoint, "custom_vjp": by_custom_vjp, "custom_jvp": by_custom_jvp, "trace": by_trace}
NAMES = ["number", "vector_to_number", "vector_to_vector"]


WATCHING = {"implicit_gradients", "tape", "persistent_tape"}


def reads_a_watched_variable(transforms):
    """Whether a function with a rule reads a variable that is an input of a transform around it."""
    place = next((i for i, each in enumerate(transforms) if each.startswith("custom")), len(transforms))
    return "implicit_gradients" in transforms[place:] and any(each in WATCHING for each in transforms[:place])


def check(name, transforms):
    """Compare a composition, the outermost first, with the closed form that leaves these four out."""
    function = CASES[name].function
    for transform in reversed(transforms):
        function = SAME[transform](function) if transform in SAME else transform_by_name(transform)(function)
    others = tuple(each for each in transforms if each not in SAME)
    if reads_a_watched_variable(transforms):
        with pytest.raises(fg.errors.ClosureError, match="uses a traced value that is not one of its arguments"):
            function(CASES[name].point)
        return
    found = function(CASES[name].point)
    compare(found if others else fg.tree_map(fg.convert_to_tensor, found), expected(name, others))


@pytest.mark.parametrize("same", SAME)
@pytest.mark.parametrize("name", NAMES)
def test_pairs(name, same):
    for transform in TRANSFORMS:
        check(name, (transform, same))
        check(name, (same, transform))
    for other in SAME:
        check(name, (same, other))


@pytest.mark.parametrize("same", SAME)
@pytest.mark.parametrize("outer", TRANSFORMS)
def test_triples(outer, same):
    for inner in TRANSFORMS:
        check("number", (outer, same, inner))
        check("number", (outer, inner, same))
        check("number", (same, outer, inner))
    for other in SAME:
        check("vector_to_number", (same, outer, other))
