"""Operations of a user's own."""

import math

import numpy as np
import pytest
import scipy.special

import fgrad as fg
from fgrad import errors
from fgrad.core.primitive import PRIMITIVES
from fgrad.extend import defbatch, defjvp, defvjp, register_primitive
from fgrad.testing import check_grads, check_primitive


@pytest.mark.usefixtures("table")
def test_an_operation_with_metadata():
    scaled = register_primitive(lambda x, y, *, factor: np.asarray(factor * x * y), name="scaled")
    defvjp(
        scaled,
        lambda ans, x, y, factor: lambda ct: factor * ct * y,
        lambda ans, x, y, factor: lambda ct: factor * ct * x,
    )
    defjvp(scaled, lambda t, ans, x, y, factor: factor * t * y, lambda t, ans, x, y, factor: factor * x * t)
    assert scaled(2.0, 3.0, factor=10.0) == 60.0
    check_grads(lambda x, y: scaled(x, y, factor=10.0), (np.array(2.0), np.array(3.0)), order=3)


@pytest.mark.usefixtures("table")
def test_a_ufunc_of_another_library_finds_its_operation():
    """The distribution function of a raised cosine is none of SciPy's public functions, and has no rule yet."""
    raised_cosine = scipy.special._ufuncs._cosine_cdf
    operation = register_primitive(raised_cosine)
    defvjp(operation, lambda ans, x: lambda ct: ct * (1 + np.cos(x)) / (2 * np.pi))
    defjvp(operation, lambda t, ans, x: t * (1 + np.cos(x)) / (2 * np.pi))
    check_grads(lambda x: raised_cosine(x), (np.array([0.1, 0.5]),))


@pytest.mark.usefixtures("table")
def test_a_function_of_numpy_finds_its_operation():
    flip = register_primitive(np.flip)
    defvjp(flip, lambda ans, x: lambda ct: np.flip(ct))
    defjvp(flip, lambda t, ans, x: np.flip(t))
    check_grads(lambda x: np.flip(x) * [1.0, 2.0], (np.array([3.0, 4.0]),))


@pytest.mark.usefixtures("table")
def test_a_mode_without_rules_is_refused():
    operation = register_primitive(lambda x: x * 2.0, name="half_defined")
    no_reverse = (
        r"half_defined has no reverse rule.*\n  at test_extend\.py:\d+: .*\nDefine it with fgrad\.extend\.defvjp"
    )
    no_forward = (
        r"half_defined has no forward rule.*\n  at test_extend\.py:\d+: .*\nDefine it with fgrad\.extend\.defjvp"
    )
    with pytest.raises(errors.MissingRuleError, match=no_reverse):
        fg.grad(operation)(1.0)
    with pytest.raises(errors.MissingRuleError, match=no_forward):
        fg.jvp(operation, (1.0,), (1.0,))
    defvjp(operation, lambda ans, x: lambda ct: ct * 2.0)
    assert fg.grad(operation)(1.0) == fg.jvp(operation, (1.0,), (1.0,))[1] == 2.0  # by transposing
    defjvp(operation, lambda t, ans, x: t * 2.0)
    assert fg.jvp(operation, (1.0,), (1.0,))[1] == 2.0
    with pytest.warns(errors.LoopWarning, match="no batching rule for half_defined") as caught:
        assert fg.vmap(operation)(np.ones(2)).tolist() == [2.0, 2.0]
    assert caught[0].filename == __file__


@pytest.mark.usefixtures("table")
def test_none_is_a_derivative_of_zero():
    operation = register_primitive(lambda x, y: x * y, name="half_constant")
    defvjp(operation, None, lambda ans, x, y: lambda ct: ct * x)
    defjvp(operation, None, lambda t, ans, x, y: t * x)
    assert [g.item() for g in fg.gradients_function(operation)(2.0, 3.0)] == [0.0, 2.0]
    assert fg.jvp(operation, (2.0, 3.0), (1.0, 1.0))[1].item() == 2.0


def sine(vjp=1.0, jvp=1.0, batch=1.0, dtype=None):
    """A sine whose rules are off by factors."""
    operation = register_primitive(lambda x: np.sin(x), name=f"sine{len(PRIMITIVES)}")
    defvjp(operation, lambda ans, x: lambda ct: (vjp * ct * np.cos(x)).astype(dtype or ct.dtype))
    defjvp(operation, lambda t, ans, x: jvp * t * np.cos(x))
    defbatch(operation, lambda values, mapped, size, metadata: batch * operation(*values))
    return operation


@pytest.mark.usefixtures("table")
def test_check_primitive():
    x = np.array([0.3, 0.7])
    check_primitive(sine(), x)
    with pytest.raises(errors.GradientCheckError, match="the reverse derivative is"):
        check_primitive(sine(vjp=1.001), x)
    with pytest.raises(errors.GradientCheckError, match="the forward derivative is"):
        check_primitive(sine(jvp=1.001), x)
    with pytest.raises(errors.GradientCheckError, match=r"vmap with in_axes=\(0,\) gives"):
        check_primitive(sine(batch=1.001), x)
    with pytest.raises(errors.GradientCheckError, match="the gradient of argument 0 has dtype float64 and shape"):
        check_primitive(sine(dtype=np.float64), x)


@pytest.mark.usefixtures("table")
def test_a_batching_rule_runs_once_for_all_examples():
    runs = []

    def implementation(x):
        runs.append(x.shape)
        return x * 2.0

    operation = register_primitive(implementation, name="counted")
    defbatch(operation, lambda values, mapped, size, metadata: operation(*values))
    assert fg.vmap(operation)(np.ones((5, 2))).tolist() == [[2.0, 2.0]] * 5
    assert runs == [(5, 2)]


def test_bad_input():
    with pytest.raises(ValueError, match="a primitive named 'sin' is registered already"):
        register_primitive(np.sin)
    with pytest.raises(errors.StructureError, match="is not an operation: pass a result of register_primitive"):
        defvjp(np.sin, None)
    with pytest.raises(errors.StructureError, match="is not an operation"):
        defjvp(np.sin, None)
    with pytest.raises(errors.StructureError, match="is not an operation"):
        defbatch(np.sin, None)


@pytest.mark.parametrize("made_like", [np.zeros_like, np.copy])
def test_a_rule_may_write_traced_numbers_into_arrays_like_its_cotangent(made_like):
    def rule(ans, x):
        def pull(ct):
            out = made_like(ct)
            out[...] = ct * np.cos(x)
            return out

        return pull

    operation = register_primitive(lambda x: np.sin(x), name=f"sine_{made_like.__name__}")
    defvjp(operation, rule)
    slope, x = fg.grad(lambda x: np.sum(operation(x))), np.array([0.3, 0.7])
    np.testing.assert_allclose(fg.grad(lambda x: np.sum(slope(x)))(x), -np.sin(x))


@pytest.mark.usefixtures("table")
def test_a_rule_that_declares_what_it_saves():
    product = register_primitive(lambda x, y: x * y, name="declared_product")
    defvjp(product, lambda ct, y: ct * y, lambda ct, ans, y: ct * ans / y)
    assert fg.grad(product, argnums=(0, 1))(2.0, 4.0) == (4.0, 2.0)
    assert fg.grad(lambda x: fg.grad(lambda x: product(x, x))(x))(3.0) == 2.0


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("rule", "named"),
    [(lambda ct, z: ct * z, "z"), (lambda ct, *, by: ct * by, "by"), (lambda ct, *args: ct, "args")],
)
def test_a_rule_that_names_what_the_operation_does_not_have(rule, named):
    product = register_primitive(lambda x, y, *, by=1.0: x * y * by, name="misnamed_product")
    with pytest.raises(errors.CustomRuleError, match=f"and {named} is not an array of the operation, which has x, y"):
        defvjp(product, rule, None)


@pytest.mark.usefixtures("table")
def test_a_rule_that_takes_no_note_of_a_keyword():
    scaled = register_primitive(lambda x, *, by: x * by, name="scaled_by_keyword")
    defvjp(scaled, lambda ct: ct)
    with pytest.raises(errors.CustomRuleError, match="scaled_by_keyword was called with by="):
        fg.grad(lambda x: scaled(x, by=3.0))(2.0)


def cubed(name):
    cube = register_primitive(lambda x: x**3, name=name)
    defvjp(cube, lambda ans, x: lambda ct: ct * 3 * x**2)
    return cube


@pytest.mark.usefixtures("table")
def test_forward_mode_follows_from_the_reverse_rules_alone():
    cube, x = cubed("cube_by_reverse_rule"), np.array([1.0, 2.0])
    assert fg.hessian(cube)(2.0) == 12.0
    np.testing.assert_allclose(fg.jacfwd(cube)(x), np.diag(3 * x**2))
    np.testing.assert_allclose(fg.hvp(lambda x: np.sum(cube(x)))(x, x), 6 * x * x)
    assert fg.jvp(lambda x: fg.jvp(cube, (x,), (1.0,))[1], (2.0,), (1.0,))[1] == 12.0
    z, t = 1 + 2j, 1 + 1j
    np.testing.assert_allclose(fg.jvp(cube, (z,), (t,))[1], 3 * z**2 * t)


@pytest.mark.usefixtures("table")
def test_forward_mode_of_several_arguments_and_results_follows_from_reverse_rules():
    product = register_primitive(lambda x, y: x @ y, name="product_by_reverse_rules")
    defvjp(product, lambda ct, y: ct @ y.T, lambda ct, x: x.T @ ct)
    x, y, s, t = np.random.default_rng(0).normal(size=(4, 2, 2))
    np.testing.assert_allclose(fg.jvp(product, (x, y), (s, t))[1], s @ y + x @ t)
    both = register_primitive(lambda x: (2 * x, float(np.sum(x))), name="both_by_reverse_rule")
    defvjp(both, lambda ans, x: lambda cts: 2 * cts[0] + cts[1])
    first, second = fg.jvp(both, (x[0],), (s[0],))[1]
    np.testing.assert_allclose(first, 2 * s[0])
    np.testing.assert_allclose(second, np.sum(s[0]))


@pytest.mark.usefixtures("table")
def test_a_rule_that_looks_at_its_cotangent_is_asked_row_by_row():
    def pullback(ct):
        return 2 * ct if float(np.sum(ct)) > 0 else 0 * ct

    doubled = register_primitive(lambda x: 2 * x, name="doubled_by_value")
    defvjp(doubled, lambda ans, x: pullback)
    for jacobian in (fg.jacrev(doubled, chunk_size=1), fg.jacobian(doubled, mode="reverse", chunk_size=1)):
        np.testing.assert_array_equal(jacobian(np.ones(3)), 2 * np.eye(3))


@pytest.mark.usefixtures("table")
def test_an_operation_that_is_registered_again_is_replaced_with_a_warning():
    first = cubed("cube_of_a_cell")
    with pytest.warns(errors.ReplacedPrimitiveWarning, match="'cube_of_a_cell' was registered before") as caught:
        second = cubed("cube_of_a_cell")
    assert caught[0].filename == __file__
    assert fg.grad(first)(2.0) == fg.grad(second)(2.0) == 12.0


@pytest.mark.usefixtures("table")
def test_an_implementation_may_return_numbers_of_pythons():
    sine = register_primitive(lambda x: math.sin(x), name="sine_of_python")
    defvjp(sine, lambda ct, x: ct * np.cos(x))
    assert sine(1.0) == math.sin(1.0)
    np.testing.assert_allclose(fg.grad(sine)(1.0), math.cos(1.0))
    np.testing.assert_allclose(fg.hessian(sine)(1.0), -math.sin(1.0))
    assert fg.compile(sine)(1.0) == math.sin(1.0)


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("has_forward_rules", [True, False])
def test_tangents_of_several_results_are_added_element_by_element(has_forward_rules):
    pair = register_primitive(lambda x, y: (x * y, x + y), name="product_and_sum")
    defvjp(pair, lambda ans, x, y: lambda ct: ct[0] * y + ct[1], lambda ans, x, y: lambda ct: ct[0] * x + ct[1])
    if has_forward_rules:
        defjvp(pair, lambda t, ans, x, y: (t * y, t), lambda t, ans, x, y: (x * t, t))
    assert fg.jvp(pair, (2.0, 3.0), (1.0, 10.0)) == ((6.0, 5.0), (23.0, 11.0))
    assert fg.hvp(lambda x: pair(x[0], x[1])[0] * x[1])(np.array([2.0, 3.0]), np.array([1.0, 10.0])).tolist() == [
        60.0,
        46.0,
    ]


def test_an_operation_only_reads_its_arrays():
    def doubled(x):
        x *= 2.0
        return x.copy()

    operation = register_primitive(doubled, "doubled_in_place")
    defvjp(operation, lambda ans, x: lambda ct: 2.0 * ct)
    for program in (lambda: operation(np.ones(2)), lambda: fg.grad(lambda x: np.sum(operation(x)))(np.ones(2))):
        with pytest.raises(errors.InPlaceError, match="doubled_in_place writes into one of its arguments"):
            program()
