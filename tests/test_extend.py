"""Operations of a user's own."""

import numpy as np
import pytest
import scipy.special

import fgrad as fg
from fgrad import errors
from fgrad.core.primitive import FUNCTIONS, PRIMITIVES, UFUNCS
from fgrad.extend import defbatch, defjvp, defvjp, register_primitive
from fgrad.testing import check_grads, check_primitive


@pytest.fixture
def table():
    """What a test registers is taken back."""
    kept = [(table, dict(table)) for table in (PRIMITIVES, UFUNCS, FUNCTIONS)]
    yield
    for changed, before in kept:
        changed.clear()
        changed.update(before)


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
    assert fg.grad(operation)(1.0) == 2.0
    with pytest.raises(errors.MissingRuleError, match=no_forward):
        fg.jvp(operation, (1.0,), (1.0,))
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
    with pytest.raises(errors.StructureError, match="is not an operation: pass what register_primitive has returned"):
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
    with pytest.raises(errors.CustomRuleError, match=f"and {named} is no array of the operation, which has x, y"):
        defvjp(product, rule, None)


@pytest.mark.usefixtures("table")
def test_a_rule_that_takes_no_note_of_a_keyword():
    scaled = register_primitive(lambda x, *, by: x * by, name="scaled_by_keyword")
    defvjp(scaled, lambda ct: ct)
    with pytest.raises(errors.CustomRuleError, match="scaled_by_keyword was called with by="):
        fg.grad(lambda x: scaled(x, by=3.0))(2.0)
