"""Every primitive for NumPy and `scipy.special`, through the same tests. A new primitive is found by itself."""

import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest

import fgrad as fg
import fgrad.scipy.special
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.reverse import ReverseTrace
from fgrad.core.tensor import Tensor, apply
from fgrad.scipy.special._declaring import NOT_SAMPLED
from fgrad.testing import calls, check_grads

OPERATORS_ONLY = {
    "invert", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "gcd", "lcm", "bitwise_count",
    "isnat",
}  # fmt: skip
"""Defined for integers or dates alone, which have no derivative; tested with the operators."""

NAMES = subprocess.run(
    [sys.executable, "-c", "import fgrad.scipy.special; print(*sorted(fgrad.core.primitive.PRIMITIVES))"],
    capture_output=True, text=True, check=True,
).stdout.split()  # fmt: skip
"""Whatever else was imported before: the other areas of SciPy enter primitives, too, and test them by themselves."""
DIFFERENTIATED = [name for name in NAMES if name not in OPERATORS_ONLY and name not in NOT_SAMPLED]
COMPARABLE = [name for name in DIFFERENTIATED if name != "stop_gradient"]
"""Those whose derivative is that of their value, which is not what `stop_gradient` is for."""


def identified(dtype, names=DIFFERENTIATED):
    return [
        pytest.param(call, id=f"{name}-{place}")
        for name in names
        for place, call in enumerate(calls(PRIMITIVES[name], dtype))
    ]


def test_every_primitive_has_samples():
    assert [name for name in DIFFERENTIATED if not PRIMITIVES[name].samples] == []


def test_the_number_of_rules_exercised():
    """Counts the reverse rules that the samples reach, so that a sample which misses its rule is noticed."""
    reached, rules = set(), set()
    for name in DIFFERENTIATED:
        for dtype in (np.float64, np.complex128):
            for call in calls(PRIMITIVES[name], dtype):
                trace = ReverseTrace()
                with trace:
                    call.function(*[trace.root(x) for x in call.arrays])
                edges = [edge for edge in trace.record if edge[5].name == name]
                reached |= {name for _ in edges}
                # The inputs have the first keys, in order, so a parent's key is the argument's number.
                rules |= {(name, parent) for _, _, parent, pullback, _, _ in edges if pullback is not None}
    assert set(DIFFERENTIATED) - reached == {"stop_gradient"}
    assert len(reached) == 389
    assert len(rules) == 443


@pytest.mark.parametrize("call", identified(np.float64, COMPARABLE))
def test_both_modes_agree_with_finite_differences_to_second_order(call):
    with np.errstate(all="ignore"):
        check_grads(call.function, call.arrays, order=2)


@pytest.mark.parametrize("call", identified(np.complex128, COMPARABLE))
def test_complex_derivatives(call):
    with np.errstate(all="ignore"):
        check_grads(call.function, call.arrays, order=2)


def gradients(function, arrays):
    result, pullback = fg.vjp(function, *arrays)
    ones = [np.ones_like(leaf) for leaf in result] if isinstance(result, tuple) else np.ones_like(result)
    return result, pullback(tuple(ones) if isinstance(result, tuple) else ones)


def refused_by_numpy(call):
    """Return whether NumPy takes no half precision here, and then see that fgrad says the same."""
    try:
        with np.errstate(all="ignore"):
            call.function(*call.arrays)
    except TypeError as error:
        message = str(error)
    else:
        return False
    with pytest.raises(TypeError, match="float16 is unsupported in linalg"):
        gradients(call.function, call.arrays)
    return "float16 is unsupported in linalg" in message


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64])
@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_a_gradient_has_the_dtype_and_shape_of_its_primal(name, dtype):
    for call in calls(PRIMITIVES[name], dtype):
        if dtype is np.float16 and refused_by_numpy(call):
            continue
        with np.errstate(all="ignore"):
            _, found = gradients(call.function, call.arrays)
            _, tangent = fg.jvp(call.function, call.arrays, call.arrays)
            result = call.function(*call.arrays)
        for gradient, x in zip(found, call.arrays, strict=True):
            assert (gradient.dtype, gradient.shape) == (x.dtype, x.shape)
        for t, y in zip(fg.tree_leaves(tangent), fg.tree_leaves(result), strict=True):
            assert (t.dtype, t.shape) == (y.dtype, y.shape)


@pytest.mark.parametrize("call", identified(np.float64))
def test_mixed_dtypes_give_each_argument_its_own(call):
    arrays = [x.astype(np.float32) if place == 0 else x for place, x in enumerate(call.arrays)]
    with np.errstate(all="ignore"):
        _, found = gradients(call.function, arrays)
    assert [g.dtype for g in found] == [x.dtype for x in arrays]


@pytest.mark.parametrize("call", identified(np.float64))
def test_results_and_gradients_do_not_depend_on_memory_layout(call):
    def scattered(x):
        spread = np.full(tuple(3 * n for n in x.shape), np.nan)
        view = spread[(..., *(slice(1, None, 3) for _ in x.shape))]
        view[...] = x
        return view

    with np.errstate(all="ignore"):
        expected = gradients(call.function, call.arrays)
        found = gradients(call.function, [scattered(x) for x in call.arrays])
    for x, y in zip(fg.tree_leaves(found), fg.tree_leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("call", identified(np.float64))
def test_tensors_give_what_arrays_give(call):
    with np.errstate(all="ignore"):
        plain = call.function(*call.arrays)
        boxed = call.function(*[Tensor(x) for x in call.arrays])
    for x, y in zip(fg.tree_leaves(boxed), fg.tree_leaves(plain), strict=True):
        assert type(x) is Tensor
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("call", identified(np.float64))
def test_a_reverse_rule_computes_nothing_before_the_cotangent_comes(call):
    """A rule that did would record itself on a persistent tape, and its rule in turn, without end."""
    lengths = []
    for persistent in (False, True):
        trace = ReverseTrace(persistent)
        with trace, np.errstate(all="ignore"):
            call.function(*[trace.root(x) for x in call.arrays])
        lengths.append(len(trace.record))
    assert lengths[0] == lengths[1]


@pytest.mark.parametrize("call", identified(np.float64))
def test_a_pass_leaves_no_reference_to_intermediate_values(call):
    gc.disable()
    try:
        made = []

        def function(*arrays):
            inner = [x * 1.0 for x in arrays]
            made.extend(weakref.ref(x.value) for x in inner if isinstance(x.value, np.ndarray))
            return call.function(*inner)

        with np.errstate(all="ignore"):
            result, found = gradients(function, call.arrays)
        assert all(reference() is None for reference in made if not _is_shared(reference(), result, found))
    finally:
        gc.enable()


def _is_shared(array, result, found):
    leaves = fg.tree_leaves((result, found))
    return any(
        array is leaf.value or leaf.value.base is array or np.shares_memory(array, leaf.value) for leaf in leaves
    )


def test_ufuncs_without_samples_are_integer_ones():
    without = {name for name in NAMES if PRIMITIVES[name].is_ufunc and not PRIMITIVES[name].samples}
    assert without - set(NOT_SAMPLED) == OPERATORS_ONLY


def test_integer_operators():
    a, b = Tensor([6, 3]), Tensor([2, 5])
    assert (a & b).tolist() == [2, 1]
    assert (a | b).tolist() == [6, 7]
    assert (a ^ b).tolist() == [4, 6]
    assert (~a).tolist() == [-7, -4]
    assert np.left_shift(a, 1).tolist() == [12, 6]
    assert np.right_shift(a, 1).tolist() == [3, 1]


def test_a_name_is_registered_once():
    from fgrad.ops.families import elementwise

    with pytest.raises(ValueError, match="a primitive named 'sin' is registered already"):
        elementwise(np.sin, None)


def test_apply_runs_on_plain_arrays_at_once():
    assert apply(PRIMITIVES["sin"], (0.0,)) == 0.0
