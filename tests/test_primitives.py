"""Every primitive, NumPy's and SciPy's, through the same tests. A new primitive is found by itself."""

import dataclasses
import gc
import weakref

import numpy as np
import pytest
from derivatives import check_derivatives
from helpers import defined_as, in_groups, naming
from primitive_names import INTEGERS_ONLY, NAMES, NOT_SAMPLED, SAMPLED, chosen

import fgrad as fg
from fgrad.core.primitive import PRIMITIVES, ReverseRule
from fgrad.core.reverse import Edge, ReverseTrace
from fgrad.core.tensor import Tensor, apply
from fgrad.core.tree import flatten
from fgrad.testing import calls

WIDENED = {"expm", "logm", "sqrtm", "fractional_matrix_power"}
"""Never called in half precision: as SciPy's do, the functions in front of them widen it."""
INCOMPARABLE = {"stop_gradient", "draw_dirichlet", "draw_multivariate_normal"}
COMPARABLE = [name for name in SAMPLED if name not in INCOMPARABLE]
"""Those whose derivative is that of their value. `stop_gradient` is there for having another one, and draws of several
numbers move with their density, which the numbers of a seed need not do: `test_random.py` compares the density."""


@pytest.fixture(autouse=True)
def numpys_warnings_are_its_own():
    with np.errstate(all="ignore"):
        yield


def samples(name, *dtypes):
    """Yield the sample calls of a primitive, and what a failure calls each."""
    for dtype in dtypes:
        for place, call in enumerate(calls(PRIMITIVES[name], dtype)):
            yield f"sample {place} of {np.dtype(dtype)}", call


def test_every_primitive_has_samples():
    assert [name for name in SAMPLED if not PRIMITIVES[name].samples] == []


class Rules:
    """The reverse rules of a primitive; `used` are the arguments for which one has given a pullback."""

    def __init__(self, rules):
        self.rules, self.used = rules, set()

    def __getitem__(self, argnum):
        def called(*args, **metadata):
            pullback = self.rules[argnum](*args, **metadata)
            if pullback is not None:
                self.used.add(argnum)
            return pullback

        return self.rules[argnum] and called


def check_that_the_samples_reach_every_rule(name):
    """A rule that no sample reaches would go through all tests here unseen."""
    primitive, rules = PRIMITIVES[name], Rules(PRIMITIVES[name].vjps)
    with defined_as(primitive, vjps=rules):
        for _, call in samples(name, np.float64, np.complex128):
            fg.vjp(call.function, *call.arrays)
    places = {len(each.leading) + place for each in primitive.samples for place, _ in enumerate(each.shapes)}
    assert rules.used == {place for place in places if rules.rules[place] is not None}


@in_groups("name", COMPARABLE)
def test_both_modes_agree_with_finite_differences_to_second_order(name):
    """By all arguments, and by each of them alone.

    The second order where a sample is chosen: its rules are those of other primitives, which all samples check. Of
    complex numbers it is for what is not elementwise: no second derivative is another formula for them.
    """
    twice = {sample for sample, _ in chosen(name)}
    for sample, call in samples(name, np.float64):
        with naming(sample):
            found = check_derivatives(call.function, call.arrays, order=2 if sample in twice else 1)
            if sample in twice:
                check_apart(call, found)
    for sample, call in chosen(name, np.complex128):
        with naming(sample):
            order = 1 if PRIMITIVES[name].is_elementwise else 2
            check_apart(call, check_derivatives(call.function, call.arrays, order))


def check_apart(call, together):
    """Each argument alone, the others being plain, has the derivatives that it has among them."""
    if len(call.arrays) == 1:
        return
    tangents = []
    for place, x in enumerate(call.arrays):

        def alone(x, place=place):
            return call.function(*call.arrays[:place], x, *call.arrays[place + 1 :])

        with naming(f"argument {place}"):
            assert_close(fg.vjp(alone, x)[1](together.weights)[0], together.gradients[place])
            tangents.append(fg.jvp(alone, (x,), together.direction[place : place + 1])[1])
    for *several, expected in zip(*map(fg.tree_leaves, (*tangents, together.tangent)), strict=True):
        assert_close(sum(several), expected)


def assert_close(found, expected):
    expected = np.asarray(expected)
    atol = 1e-8 * np.max(np.abs(expected), initial=1e-6, where=np.isfinite(expected))
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-8, atol=atol)


def gradients(function, arrays):
    result, pullback = fg.vjp(function, *arrays)
    ones = [np.ones_like(leaf) for leaf in result] if isinstance(result, tuple) else np.ones_like(result)
    return result, pullback(tuple(ones) if isinstance(result, tuple) else ones)


def refused_by_numpy(call):
    """Return whether NumPy, or SciPy from 1.20 on, takes no half precision here; then see that fgrad says the same."""
    try:
        call.function(*call.arrays)
    except DeprecationWarning as warning:
        return "dtype=float16" in str(warning)
    except TypeError as error:
        message = str(error)
    else:
        return False
    with pytest.raises(TypeError, match="float16 is unsupported in linalg"):
        gradients(call.function, call.arrays)
    return "float16 is unsupported in linalg" in message


DIAGONAL = [name for name in SAMPLED if PRIMITIVES[name].is_elementwise and PRIMITIVES[name].jvp]


@in_groups("name", DIAGONAL)
def test_a_batch_of_tangents_goes_along_as_each_of_them(name):
    """What is done element by element takes a batch out of its box; so it has to be brought into form by itself."""
    rng = np.random.default_rng(0)
    for sample, call in (each for dtype in (np.float64, np.float32, np.complex128) for each in chosen(name, dtype)):
        moved = [[each] for each in range(len(call.arrays))] + [list(range(len(call.arrays)))]
        for places in moved[: None if len(call.arrays) > 1 else 1]:
            directions = [rng.integers(-1, 2, (3, *call.arrays[p].shape)).astype(call.arrays[p].dtype) for p in places]

            def along(*tangents, places=places, call=call):
                def f(*chosen):
                    arrays = list(call.arrays)
                    for place, x in zip(places, chosen, strict=True):
                        arrays[place] = x
                    return call.function(*arrays)

                return flatten(fg.jvp(f, [call.arrays[place] for place in places], tangents)[1])[0]

            with naming(sample, f"arguments {places}"):
                try:
                    expected = [along(*each) for each in zip(*directions, strict=True)]
                except fg.errors.NoClosedFormError:
                    continue
                for found, each in zip(fg.vmap(along)(*directions), zip(*expected, strict=True), strict=True):
                    rtol = 1e-5 if found.dtype.char in "fF" else 1e-12
                    np.testing.assert_allclose(found.numpy(), np.stack(each).numpy(), rtol=rtol)
                    assert found.dtype == each[0].dtype


@in_groups("name", SAMPLED)
def test_a_gradient_has_the_dtype_and_shape_of_its_primal(name):
    """In double precision it is compared with finite differences, too."""
    others = (each for dtype in (np.float16, np.complex64) for each in chosen(name, dtype))
    for sample, call in (*samples(name, np.float32), *others):
        with naming(sample):
            if call.arrays[0].dtype == np.float16 and (name in WIDENED or refused_by_numpy(call)):
                continue
            result, found = gradients(call.function, call.arrays)
            _, tangent = fg.jvp(call.function, call.arrays, call.arrays)
            expected = call.function(*call.arrays)
            for gradient, x in zip(found, call.arrays, strict=True):
                assert (gradient.dtype, gradient.shape) == (x.dtype, x.shape)
            for t, y, e in zip(*map(fg.tree_leaves, (tangent, result, expected)), strict=True):
                assert (t.dtype, t.shape) == (y.dtype, y.shape) == (e.dtype, e.shape)
    for sample, call in chosen(name):
        arrays = [x.astype(np.float32) if place == 0 else x for place, x in enumerate(call.arrays)]
        with naming(sample, "the first argument in single precision"):
            _, found = gradients(call.function, arrays)
            assert [g.dtype for g in found] == [x.dtype for x in arrays]


def scattered(x):
    spread = np.full(tuple(3 * n for n in x.shape), np.nan)
    view = spread[(..., *(slice(1, None, 3) for _ in x.shape))]
    view[...] = x
    return view


def check_tensors_and_memory_layout(name):
    """Values of tensors are those of arrays, and layouts in memory count for neither values nor gradients."""
    for sample, call in chosen(name):
        with naming(sample):
            plain = call.function(*call.arrays)
            boxed = call.function(*[Tensor(x) for x in call.arrays])
            for x, y in zip(fg.tree_leaves(boxed), fg.tree_leaves(plain), strict=True):
                assert type(x) is Tensor
                np.testing.assert_array_equal(x, y)
            expected = gradients(call.function, call.arrays)
            found = gradients(call.function, [scattered(x) for x in call.arrays])
            for x, y in zip(fg.tree_leaves(found), fg.tree_leaves(expected), strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-14)


def check_that_a_reverse_rule_waits_for_the_cotangent(name):
    """A rule that did would record itself on a persistent tape, and its rule in turn, without end."""
    for sample, call in samples(name, np.float64):
        lengths = []
        for persistent in (False, True):
            trace = ReverseTrace(persistent)
            with trace:
                call.function(*[trace.root(x) for x in call.arrays])
            lengths.append(len(trace.record))
        with naming(sample):
            assert lengths[0] == lengths[1]


def check_that_a_pass_leaves_no_reference_to_intermediate_values(name):
    gc.disable()
    try:
        for sample, call in chosen(name):
            made = []

            def function(*arrays, call=call, made=made):
                inner = [x * 1.0 for x in arrays]
                made.extend(weakref.ref(x._payload) for x in inner if isinstance(x._payload, np.ndarray))
                return call.function(*inner)

            result, found = gradients(function, call.arrays)
            with naming(sample):
                assert all(reference() is None for reference in made if not _is_shared(reference(), result, found))
    finally:
        gc.enable()


def _is_shared(array, result, found):
    leaves = fg.tree_leaves((result, found))
    return any(
        array is leaf._payload or leaf._payload.base is array or np.shares_memory(array, leaf._payload)
        for leaf in leaves
    )


def pulled(call, place, overwrite):
    """Return the gradient by one array, of a call whose other arrays are plain, and are overwritten before the pass."""
    arrays = [np.array(x) for x in call.arrays]

    def function(x):
        return call.function(*[x if i == place else array for i, array in enumerate(arrays)])

    value, pullback = fg.vjp(function, arrays[place])
    for array in arrays if overwrite else ():
        array[...] = 0.3
    return pullback(fg.tree_map(lambda x: np.ones_like(x.numpy()), value))[0]


def check_that_plain_arguments_may_be_overwritten_before_the_pass(name):
    for sample, call in chosen(name):
        for place in range(len(call.arrays)):
            with naming(sample):
                np.testing.assert_array_equal(pulled(call, place, True), pulled(call, place, False))


def arrays_within(thing, depth=6):
    """Return the arrays to which something refers, at any depth, besides modules and classes."""
    if isinstance(thing, np.ndarray):
        return [thing]
    if depth == 0 or isinstance(thing, (type, type(np), dict)):
        return []
    return [array for each in gc.get_referents(thing) for array in arrays_within(each, depth - 1)]


def check_that_a_pullback_refers_to_what_its_rule_declares(name):
    """And to no other argument."""
    for argnum, rule in enumerate(PRIMITIVES[name].vjps):
        if not isinstance(rule, ReverseRule):
            continue
        for sample, call in chosen(name):
            trace = ReverseTrace()
            with trace:
                call.function(*[trace.root(x) for x in call.arrays])
            edges = [Edge(*entry) for entry in trace.record if entry[3] is rule]
            with naming(sample):
                for edge in edges:
                    saved = edge.saved if rule.count > 1 else (edge.saved,)[: rule.count]
                    assert len(saved) == len(rule.saved)
                    others = [x for place, x in enumerate(call.arrays) if place + 1 not in rule.saves]
                    kept = arrays_within(edge.rule.function) + arrays_within(saved)
                    assert not any(each is other for each in kept for other in others), (argnum, rule.saved)


@in_groups("name", SAMPLED)
def test_values_of_tensors_and_what_a_pullback_keeps(name):
    primitive = PRIMITIVES[name]
    check_tensors_and_memory_layout(name)
    check_that_a_reverse_rule_waits_for_the_cotangent(name)
    check_that_a_pass_leaves_no_reference_to_intermediate_values(name)
    if primitive.vjps is not None:
        check_that_the_samples_reach_every_rule(name)
        check_that_plain_arguments_may_be_overwritten_before_the_pass(name)
    if isinstance(primitive.vjps, tuple):
        check_that_a_pullback_refers_to_what_its_rule_declares(name)


@in_groups("name", [name for name in SAMPLED if PRIMITIVES[name].is_elementwise])
def test_an_elementwise_operation_computes_with_pythons_numbers(name):
    """They stay what they are in a recording."""
    call = next(calls(PRIMITIVES[name], np.float64))
    numbers = [x.item() for x in call.arrays if x.shape == ()]
    if len(numbers) == len(call.arrays):
        wanted, found = call.function(*call.arrays), fg.trace(call.function)(*numbers)(*numbers)
        for x, y in zip(flatten(wanted)[0], flatten(found)[0], strict=True):
            np.testing.assert_allclose(np.asarray(y), np.asarray(x), 1e-14)


def test_ufuncs_without_samples_are_integer_ones():
    without = {name for name in NAMES if PRIMITIVES[name].is_ufunc and not PRIMITIVES[name].samples}
    assert without - set(NOT_SAMPLED) == INTEGERS_ONLY


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


def test_what_a_primitive_says_is_said_once():
    sine = PRIMITIVES["sin"]
    assert len(dataclasses.fields(sine)) <= 16
    for field in dataclasses.fields(sine):
        if getattr(sine, field.name):
            with pytest.raises(AttributeError, match=f"{field.name} of the primitive 'sin' is defined already"):
                setattr(sine, field.name, None)
