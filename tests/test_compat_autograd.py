"""Autograd's names on fgrad, used as its clients use them."""

import builtins
import importlib.util
import subprocess
import sys
import warnings

import numpy as onp
import pytest
from numpy.testing import assert_allclose

import fgrad as fg
import fgrad.compat.autograd.numpy as np
import fgrad.compat.autograd.numpy.linalg as linalg
import fgrad.compat.autograd.numpy.random as npr
import fgrad.compat.autograd.scipy.linalg as scipy_linalg
import fgrad.compat.autograd.scipy.signal as signal
import fgrad.compat.autograd.scipy.special as special
import fgrad.compat.autograd.scipy.stats as stats
import fgrad.compat.autograd.scipy.stats.norm as norm
from fgrad import errors
from fgrad.compat import autograd
from fgrad.compat.autograd import (
    checkpoint,
    deriv,
    egrad,
    elementwise_grad,
    grad,
    grad_and_aux,
    grad_named,
    hessian,
    hessian_tensor_product,
    hessian_vector_product,
    holomorphic_grad,
    jacobian,
    make_ggnvp,
    make_hvp,
    make_jvp,
    make_jvp_reversemode,
    make_vjp,
    multigrad_dict,
    tensor_jacobian_product,
    value_and_grad,
    vector_jacobian_product,
)
from fgrad.compat.autograd.boxes import BOX_CLASSES, BOXED
from fgrad.compat.autograd.builtins import dict as make_dict
from fgrad.compat.autograd.builtins import isinstance as ag_isinstance
from fgrad.compat.autograd.builtins import list as make_list
from fgrad.compat.autograd.builtins import tuple as make_tuple
from fgrad.compat.autograd.builtins import type as ag_type
from fgrad.compat.autograd.core import backward_pass
from fgrad.compat.autograd.extend import (
    Box,
    JVPNode,
    SparseObject,
    VJPNode,
    VSpace,
    def_linear,
    defjvp,
    defjvp_argnum,
    defjvp_argnums,
    deflinear,
    defvjp,
    defvjp_argnum,
    defvjp_argnums,
    notrace_primitive,
    primitive,
    register_notrace,
    vspace,
)
from fgrad.compat.autograd.misc import const_graph, flatten
from fgrad.compat.autograd.misc.fixed_points import fixed_point
from fgrad.compat.autograd.misc.flatten import flatten_func
from fgrad.compat.autograd.misc.optimizers import adam, rmsprop, sgd
from fgrad.compat.autograd.misc.tracers import full_graph
from fgrad.compat.autograd.numpy.numpy_boxes import ArrayBox
from fgrad.compat.autograd.numpy.numpy_jvps import broadcast
from fgrad.compat.autograd.numpy.numpy_vjps import (
    balanced_eq,
    match_complex,
    repeat_to_match_shape,
    replace_zero,
    unbroadcast,
    unbroadcast_f,
    untake,
)
from fgrad.compat.autograd.numpy.numpy_vspaces import ArrayVSpace, ComplexArrayVSpace
from fgrad.compat.autograd.numpy.numpy_wrapper import metadata, wrap_namespace
from fgrad.compat.autograd.scipy.integrate import odeint
from fgrad.compat.autograd.test_util import (
    check_equivalent,
    check_grads,
    check_jvp,
    check_vjp,
    combo_check,
    scalar_close,
)
from fgrad.compat.autograd.tracer import Node, getval, isbox, new_box, trace
from fgrad.compat.autograd.util import quick_grad_check, subval, subvals, toposort
from fgrad.compat.autograd.wrap_util import unary_to_nary

VECTOR = onp.array([1.0, 2.0, 3.0])


# Derivatives


def assert_plain(x, expected):
    """Check a value, and that it is NumPy's own, to which one may write."""
    assert builtins.type(x) is onp.ndarray or builtins.isinstance(x, (float, complex, onp.generic))
    assert builtins.type(x) is not onp.ndarray or x.flags.writeable
    assert_allclose(x, expected, rtol=1e-10, atol=1e-12)


def test_gradients_are_plain_arrays_and_numbers():
    assert_plain(grad(lambda x: np.sum(np.sin(x)))(VECTOR), onp.cos(VECTOR))
    assert_plain(grad(np.sin)(1.0), onp.cos(1.0))
    assert_plain(grad(grad(grad(lambda x: x**4)))(2.0), 48.0)
    value, gradient = value_and_grad(lambda x: np.sum(x**2))(VECTOR)
    assert_plain(value, 14.0)
    assert_plain(gradient, 2 * VECTOR)


def test_argnum_is_a_position_or_several():
    assert_plain(grad(lambda x, y: x * y**2, 1)(2.0, 3.0), 12.0)
    assert grad(lambda x, y: x * y**2, (1, 0))(2.0, 3.0) == (12.0, 9.0)
    assert grad(lambda x, y, z=1.0: x * y * z, argnum=[0])(2.0, 3.0, z=4.0) == (12.0,)
    assert grad_named(lambda x, y: x * y**2, "y")(2.0, 3.0) == 12.0
    with pytest.raises(errors.ParameterError, match="has no parameter 'z'"):
        grad_named(lambda x, y: x, "z")
    with pytest.raises(errors.ParameterError, match="was called with 1 positional arguments, but argnum is 1"):
        grad(lambda x, y=2.0: x * y, 1)(1.0)
    with pytest.raises(errors.ParameterError, match="argnum must be a position"):
        grad(lambda x: x, "x")


def test_containers_come_back_as_they_are():
    params = {"w": VECTOR, "layers": [(1.0, onp.ones((2, 2))), 2.0]}

    def loss(p):
        assert builtins.isinstance(p["layers"], builtins.list)
        (a, b), c = p["layers"]
        return np.sum(p["w"] ** 2) * a + np.sum(b) * c

    found = grad(loss)(params)
    assert_plain(found["w"], 2 * VECTOR)
    assert_plain(found["layers"][0][0], 14.0)
    assert_plain(found["layers"][0][1], 2 * onp.ones((2, 2)))
    assert_plain(found["layers"][1], 4.0)
    check_grads(loss)(params)


def test_integers_are_differentiated_as_floating_point_numbers():
    assert_plain(grad(lambda x: np.sum(x**2))(onp.arange(3)), [0.0, 2.0, 4.0])
    assert grad(lambda x, y: x * y, (0, 1))(2, 3) == (3.0, 2.0)
    assert_plain(jacobian(lambda x: x**2)(onp.array([1, 2])), [[2.0, 0.0], [0.0, 4.0]])


def test_results_of_one_element():
    assert_plain(grad(lambda x: np.array([x**2]))(3.0), 6.0)
    value, gradient = value_and_grad(lambda x: np.sum(x**2, keepdims=True))(VECTOR)
    assert_plain(value, [14.0])
    assert_plain(gradient, 2 * VECTOR)
    assert_plain(grad(lambda x: 1.0)(2.0), 0.0)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: x, r"returned \[1. 2. 3.\], of shape \(3,\)"),
        (lambda x: np.sum(x) * 1j, "returned .*6"),
        (lambda x: np.allclose(x, x), "returned True"),
        (lambda x: {"loss": x}, "returned {'loss'"),
    ],
)
def test_a_gradient_is_that_of_one_real_number(function, said):
    with pytest.raises(TypeError, match=said):
        grad(function)(VECTOR)


def test_dtypes_are_kept():
    for dtype in (onp.float16, onp.float32, onp.float64):
        assert grad(lambda x: np.sum(x**2))(onp.ones(2, dtype)).dtype == dtype
    assert jacobian(lambda x: x * 2)(onp.ones(2, onp.float32)).dtype == onp.float32


def test_names_and_docstrings():
    def loss(x):
        return x

    assert grad.__name__ == "grad"
    assert grad(loss, 1).__name__ == "grad_of_loss_wrt_argnum_1"
    assert "grad of function loss" in grad(loss, 1).__doc__


def test_jacobians_and_hessians():
    matrix = onp.array([[1.0, 2.0, 0.0], [0.0, 1.0, 3.0]])
    assert_plain(jacobian(lambda x: np.dot(matrix, x))(VECTOR), matrix)
    assert jacobian(lambda x: np.outer(x, x))(VECTOR).shape == (3, 3, 3)
    assert_plain(jacobian(np.sum)(VECTOR), onp.ones(3))
    both = jacobian(lambda x, y: x * y, (0, 1))(VECTOR, 2.0)
    assert_plain(both[0], 2 * onp.eye(3))
    assert_plain(both[1], VECTOR)
    assert_plain(hessian(lambda x: np.sum(x**3))(VECTOR), onp.diag(6 * VECTOR))
    assert hessian(lambda x: x**2)(VECTOR).shape == (3, 3, 3)
    assert_plain(elementwise_grad(np.tanh)(VECTOR), 1 - onp.tanh(VECTOR) ** 2)
    assert_plain(egrad(egrad(np.sin))(VECTOR), -onp.sin(VECTOR))
    assert_plain(deriv(np.sin)(VECTOR), onp.cos(VECTOR))
    with pytest.raises(TypeError, match="elementwise_grad needs a real function"):
        elementwise_grad(lambda x: x * 1j)(VECTOR)


def test_products():
    def cubes(x):
        return x**3

    def total(x):
        return np.sum(x**3)

    v = onp.array([1.0, -1.0, 2.0])
    pullback, value = make_vjp(cubes)(VECTOR)
    assert_plain(value, VECTOR**3)
    assert_plain(pullback(v), 3 * VECTOR**2 * v)
    assert_plain(pullback(2 * v), 6 * VECTOR**2 * v)
    value, tangent = make_jvp(cubes)(VECTOR)(v)
    assert_plain(value, VECTOR**3)
    assert_plain(tangent, 3 * VECTOR**2 * v)
    assert_plain(make_jvp_reversemode(cubes)(VECTOR)(v), 3 * VECTOR**2 * v)
    hvp, gradient = make_hvp(total)(VECTOR)
    assert_plain(hvp(v), 6 * VECTOR * v)
    assert_plain(gradient, 3 * VECTOR**2)
    for product in (hessian_tensor_product, hessian_vector_product):
        assert_plain(product(total)(VECTOR, v), 6 * VECTOR * v)
    for product in (tensor_jacobian_product, vector_jacobian_product):
        assert_plain(product(cubes)(VECTOR, v), 3 * VECTOR**2 * v)
    assert_plain(make_ggnvp(cubes)(VECTOR)(v), 9 * VECTOR**4 * v)
    assert_plain(make_ggnvp(cubes, lambda y: np.sum(y**4))(VECTOR)(v), 9 * VECTOR**4 * 12 * VECTOR**6 * v)


def test_containers_of_results():
    pullback, value = make_vjp(lambda x: {"a": x**2, "b": (x, 1.0)})(3.0)
    assert value == {"a": 9.0, "b": (3.0, 1.0)}
    assert pullback({"a": 1.0, "b": (10.0, 5.0)}) == 16.0


def test_aux_and_dicts_of_gradients():
    gradient, aux = grad_and_aux(lambda x: (np.sum(x**2), {"seen": x}))(VECTOR)
    assert_plain(gradient, 2 * VECTOR)
    assert_plain(aux["seen"], VECTOR)
    found = multigrad_dict(lambda x, *rest, scale=2.0, **other: x * rest[0] * scale * other["z"])(2.0, 3.0, z=5.0)
    assert found == {"x": 30.0, "rest": (20.0,), "scale": 30.0, "other": {"z": 12.0}}


def test_a_complex_result_has_no_gradient():
    for transform in (grad, value_and_grad, grad_and_aux):
        with pytest.raises(TypeError, match="needs a function with a real result, but .* returned"):
            transform(lambda x: (np.sum(x * 1j), None) if transform is grad_and_aux else np.sum(x * 1j))(VECTOR)


def test_checkpoint():
    runs = []

    def step(x):
        runs.append(None)
        return np.sin(x) ** 2

    assert_plain(grad(lambda x: np.sum(checkpoint(step)(x)))(VECTOR), onp.sin(2 * VECTOR))
    assert len(runs) == 2
    assert_plain(checkpoint(step)(VECTOR), onp.sin(VECTOR) ** 2)


def test_outer_derivatives_go_through_inner_ones():
    assert_plain(grad(lambda x: x * grad(lambda y: x * y**2)(3.0))(2.0), 24.0)
    assert_plain(grad(lambda x: value_and_grad(lambda y: y**3)(x)[1])(2.0), 12.0)
    assert_plain(grad(lambda x: make_vjp(np.sin)(x)[0](1.0))(1.0), -onp.sin(1.0))
    assert_plain(jacobian(lambda x: make_jvp(np.sin)(x)(VECTOR)[1])(VECTOR), onp.diag(-onp.sin(VECTOR) * VECTOR))


# Complex numbers, in Autograd's convention


def test_complex_gradients_are_conjugates_of_fgrads():
    def energy(z):
        return np.sum(np.abs(z) ** 2 * np.real(z))

    z = onp.array([1.0 + 2.0j, -0.5 + 1.0j])
    assert_plain(grad(energy)(z), onp.conj(fg.grad(energy)(z).numpy()))
    assert_plain(grad(lambda z: np.real(z**2))(1 + 2j), 2 + 4j)
    assert_plain(holomorphic_grad(lambda z: np.exp(z) * z)(1 + 2j), onp.exp(1 + 2j) * (2 + 2j))
    assert_plain(make_vjp(lambda z: z**2, 0)(1 + 2j)[0](1.0), 2 + 4j)
    assert_plain(make_vjp(np.conj)(1 + 2j)[0](1j), -1j)
    assert_plain(jacobian(lambda z: z**2)(z), onp.diag(2 * z))
    check_grads(lambda z: np.sin(z) * np.conj(z))(z)
    with pytest.warns(UserWarning, match="with a real argument"):
        holomorphic_grad(np.exp)(1.0)


def test_complex_cotangents_of_real_results():
    pullback, _ = make_vjp(lambda x: {"a": 2 * x, "b": x * 1j})(VECTOR)
    assert_plain(pullback({"a": 1j * VECTOR, "b": onp.zeros(3)}), 2j * VECTOR)
    assert_plain(make_vjp(lambda x: 3.0 * x)(1.0)[0](1 + 2j), 3 + 6j)


# Primitives


def logsumexp_plain(x, axis=None):
    assert builtins.type(x) in (onp.ndarray, onp.float64, float)
    biggest = onp.max(x)
    return biggest + onp.log(onp.sum(onp.exp(x - biggest), axis=axis))


def test_a_primitive_with_a_reverse_rule_alone():
    logsumexp = primitive(logsumexp_plain)
    defvjp(logsumexp, lambda ans, x: lambda g: np.full(x.shape, g) * np.exp(x - np.full(x.shape, ans)))
    assert logsumexp.__name__ == "logsumexp_plain"
    assert_plain(logsumexp(VECTOR), special.logsumexp(VECTOR))
    softmax = onp.exp(VECTOR - special.logsumexp(VECTOR))
    assert_plain(grad(logsumexp)(VECTOR), softmax)
    assert_plain(hessian(logsumexp)(VECTOR), onp.diag(softmax) - onp.outer(softmax, softmax))
    assert_plain(make_jvp(logsumexp)(VECTOR)(VECTOR)[1], softmax @ VECTOR)  # by transposing the rule
    check_grads(logsumexp)(VECTOR)
    assert_plain(fg.vmap(fg.grad(logsumexp))(onp.stack([VECTOR, VECTOR])).numpy(), [softmax, softmax])
    assert_plain(fg.compile(fg.grad(logsumexp))(VECTOR).numpy(), softmax)


def test_forward_rules_of_all_forms():
    def rules(define):
        product = primitive(lambda x, y, scale=1.0: x * y * scale)
        defvjp(
            product,
            lambda ans, x, y, scale=1.0: lambda g: g * y * scale,
            lambda ans, x, y, scale=1.0: lambda g: g * x * scale,
        )
        define(product)
        check_grads(lambda x, y: product(x, y, scale=2.0), (0, 1))(VECTOR, VECTOR[::-1].copy())

    rules(lambda f: defjvp(f, lambda g, ans, x, y, scale=1.0: g * y * scale, "same"))
    rules(lambda f: defjvp(f, "same", "same", argnums=(0, 1)))
    rules(lambda f: defjvp_argnum(f, lambda argnum, g, ans, args, kwargs: g * args[1 - argnum] * kwargs["scale"]))
    rules(
        lambda f: defjvp_argnums(
            f,
            lambda argnums, gs, ans, args, kwargs: sum(
                g * args[1 - argnum] * kwargs["scale"] for argnum, g in zip(argnums, gs, strict=True)
            ),
        )
    )
    rules(def_linear)
    rules(deflinear)
    with pytest.raises(errors.StructureError, match="'same' or None, but it is 'other'"):
        defjvp(primitive(lambda x: x), "other")


def test_a_forward_rule_is_used_in_forward_mode():
    odd = primitive(lambda x: x * 2.0)
    defvjp(odd, lambda ans, x: lambda g: g * 2.0)
    defjvp(odd, lambda g, ans, x: g * 100.0)
    assert deriv(odd)(1.0) == 100.0
    assert grad(odd)(1.0) == 2.0


def test_reverse_rules_of_all_forms():
    by_argnum, at_once = primitive(lambda *xs: sum(xs) ** 2), primitive(lambda x, y: x * y)
    defvjp_argnum(by_argnum, lambda argnum, ans, args, kwargs: lambda g: 2 * g * sum(args))
    defvjp_argnums(
        at_once, lambda argnums, ans, args, kwargs: lambda g: tuple(g * args[1 - argnum] for argnum in argnums)
    )
    assert grad(by_argnum, (0, 2))(1.0, 2.0, 3.0) == (12.0, 12.0)
    assert grad(at_once, (0, 1))(2.0, 3.0) == (3.0, 2.0)
    assert_plain(hessian(lambda x: np.sum(at_once(x, x)))(VECTOR), 2 * onp.eye(3))
    second = primitive(lambda name, x: x**2)
    defvjp(second, lambda ans, name, x: lambda g: g * 2 * x, argnums=(1,))
    assert grad(lambda x: second("any", x))(3.0) == 6.0
    constant = primitive(lambda x, y: x * y)
    defvjp(constant, None, lambda ans, x, y: lambda g: g * x)
    assert grad(constant, (0, 1))(2.0, 3.0) == (0.0, 2.0)


@primitive
def weigh(params, how, scale=1.0, flags=None):
    """Takes and returns containers, and arguments of any other kind."""
    assert builtins.type(params["w"]) in (onp.ndarray, onp.float64)
    assert how is None or how == "twice"
    return {"a": params["w"] * scale, "b": [params["b"] ** 2]}


def weigh_vjp(ans, params, how, scale=1.0, flags=None):
    return lambda g: {"w": g["a"] * scale, "b": 2 * params["b"] * g["b"][0]}


defvjp(weigh, weigh_vjp)


def test_a_primitive_of_containers():
    def total(params):
        found = weigh(params, "twice", scale=2.0, flags=[1, None])
        return np.sum(found["a"] * found["b"][0])

    params = {"w": onp.ones(3), "b": VECTOR}
    found = grad(total)(params)
    assert_plain(found["w"], 2 * VECTOR**2)
    assert_plain(found["b"], 4 * VECTOR)
    second = make_jvp(grad(total))(params)(params)[1]
    assert_plain(second["w"], 4 * VECTOR**2)
    assert_plain(second["b"], 8 * VECTOR)
    assert_plain(hessian(lambda b: total({"w": onp.ones(3), "b": b}))(VECTOR), 4 * onp.eye(3))
    assert weigh({"w": onp.float64(1.0), "b": onp.float64(2.0)}, None) == {"a": 1.0, "b": [4.0]}
    defjvp(weigh, lambda g, ans, params, how, **rest: {"a": g["w"] * 2.0, "b": [2 * params["b"] * g["b"]]})
    assert_plain(make_jvp(grad(total))(params)(params)[1]["b"], 8 * VECTOR)


def test_what_a_primitive_is_handed_by_keyword():
    scaled = primitive(lambda x, scale=1.0: x * scale)
    defvjp(scaled, lambda ans, x, scale=1.0: lambda g: g * scale)
    assert grad(lambda x: scaled(2.0, scale=x))(3.0) == 2.0  # the body is differentiated, as in Autograd
    with pytest.raises(NotImplementedError, match="in the keyword scale has no reverse rule"):
        grad(lambda x: scaled(x, scale=x))(3.0)


def test_missing_rules():
    bare = primitive(lambda x: 2.0 * x)
    for transform in (grad, deriv):
        with pytest.raises(NotImplementedError, match="in its argument 0 has no reverse rule"):
            transform(bare)(1.0)
    defvjp(bare, lambda ans, x: lambda g: 2 * g, argnums=(1,))
    with pytest.raises(NotImplementedError, match="in its argument 0"):
        grad(bare)(1.0)
    defjvp(bare, lambda g, ans, x: 2 * g, argnums=(1,))
    with pytest.raises(NotImplementedError, match="has no forward rule"):
        deriv(bare)(1.0)
    masked = primitive(lambda x, mask: x * mask)
    defvjp(masked, lambda ans, x, mask: lambda g: g * mask)
    assert_plain(grad(lambda x: np.sum(masked(x, x > 1.5)))(VECTOR), [0.0, 1.0, 1.0])
    assert_plain(jacobian(lambda x: masked(x, x > 1.5))(VECTOR), onp.diag([0.0, 1.0, 1.0]))
    assert_plain(make_jvp(lambda x: masked(x, x > 1.5))(VECTOR)(VECTOR)[1], [0.0, 2.0, 3.0])
    words = primitive(lambda x: "word")
    with pytest.raises(TypeError, match="returned 'word', but results must be numbers"):
        grad(words)(1.0)


def test_rules_of_what_is_no_primitive_are_not_used():
    def halved(x):
        return x / 2

    with pytest.warns(errors.UnusedRuleWarning, match="is not a primitive, so that the rule given for it is not used"):
        defvjp(halved, lambda ans, x: lambda g: 100 * g)
    with pytest.warns(errors.UnusedRuleWarning, match="is not a primitive"):
        defjvp(halved, lambda g, ans, x: 100 * g)
    assert grad(halved)(1.0) == deriv(halved)(1.0) == 0.5


@pytest.mark.parametrize(
    "function", [np.sin, onp.sin, np.sum, onp.sum, linalg.inv, onp.linalg.inv, linalg.slogdet, special.psi]
)
def test_functions_with_rules_keep_them(function):
    """Also those of NumPy's that wrap another function in their turn, as `inv` does."""
    defvjp(function, lambda ans, *args, **kwargs: lambda g: g)
    defjvp(function, lambda g, ans, *args, **kwargs: g)
    assert grad(lambda x: np.sum(linalg.inv(x)))(onp.eye(2) / 2)[0, 0] == -4.0


def test_functions_of_scipy_without_rules_take_them():
    assert scipy_linalg.cholesky_banded is scipy_linalg.cholesky_banded
    banded = onp.array([[4.0, 5.0, 6.0], [1.0, 2.0, 0.0]])
    with pytest.raises(errors.ScipyCallError, match="cholesky_banded"):
        grad(lambda x: np.sum(scipy_linalg.cholesky_banded(x, lower=True)))(banded)
    defvjp(scipy_linalg.cholesky_banded, lambda ans, x, lower: lambda g: g * x)
    gradient = grad(lambda x: np.sum(scipy_linalg.cholesky_banded(x, lower=True) * VECTOR))(banded)
    assert_plain(gradient, banded * VECTOR)
    assert_plain(grad(special.softplus)(0.5), 1 / (1 + onp.exp(-0.5)))  # whose code is differentiated


def test_rules_are_handed_plain_values_or_those_of_outer_derivatives():
    kinds = []
    cube = primitive(lambda x: x**3)
    defvjp(cube, lambda ans, x: lambda g: kinds.append((isbox(x), isbox(ans), isbox(g))) or g * 3 * x**2)
    grad(cube)(2.0)
    assert kinds == [(False, False, False)]
    assert grad(grad(cube))(2.0) == 12.0
    assert kinds[1:] == [(True, True, False)]


def test_rules_that_are_looser_than_fgrads():
    shifted = primitive(lambda x: x + 1.0)
    defvjp(shifted, lambda ans, x: lambda g: 1.0)  # one number for all elements
    assert_plain(grad(lambda x: np.sum(shifted(x)))(VECTOR), onp.ones(3))
    modulus = primitive(lambda x: onp.abs(x * 1j))
    defvjp(modulus, lambda ans, x: lambda g: g * (1 + 0j))
    assert_plain(grad(modulus)(2.0), 1.0)
    picked = primitive(lambda x: x[1])
    defvjp(picked, lambda ans, x: lambda g: untake(g, 1, vspace(x)))
    assert_plain(grad(picked)(VECTOR), [0.0, 1.0, 0.0])
    assert_plain(grad(lambda x: grad(lambda y: picked(y) ** 2)(x)[1])(VECTOR), [0.0, 2.0, 0.0])


def test_methods_and_plain_functions():
    class Model:
        @primitive
        def run(self, x):
            return 3.0 * x

    defvjp(Model.run, None, lambda ans, self, x: lambda g: 3.0 * g)
    assert grad(Model().run)(1.0) == 3.0
    seen = []
    look = notrace_primitive(lambda x: seen.append(builtins.type(x)) or x)
    assert grad(lambda x: x * look(x))(3.0) == 3.0
    assert seen == [onp.float64]
    silent = primitive(lambda x: onp.floor(x))
    register_notrace(VJPNode, silent)
    assert grad(lambda x: x + silent(x))(1.5) == 1.0


def test_old_forms_of_rules():
    product = primitive(lambda x, y: x * y)
    with pytest.warns(DeprecationWarning, match="an old form of Autograd"):
        product.defgrad(lambda ans, x, y: lambda g: g * y)
    with pytest.warns(DeprecationWarning, match="old form of Autograd|quick_grad_check"):
        product.defvjp(lambda g, ans, vs, gvs, x, y: g * x * vs.ones(), argnum=1)
    assert grad(product, (0, 1))(2.0, 3.0) == (3.0, 2.0)
    with pytest.warns(DeprecationWarning, match="old form of Autograd|quick_grad_check"):
        product.defvjp_is_zero([0])
    assert grad(product, (0, 1))(2.0, 3.0) == (0.0, 2.0)


def test_helpers_of_rules():
    x = onp.ones((1, 3))
    assert_plain(unbroadcast(onp.ones((2, 4, 3)), metadata(x)), [[8.0, 8.0, 8.0]])
    assert_plain(unbroadcast(onp.ones((3, 2)), metadata(onp.ones(3)), -1), [2.0, 2.0, 2.0])
    assert_plain(unbroadcast_f(2.0, lambda g: g * (1 + 1j))(onp.ones(3)), 3.0)
    assert match_complex(1j, 1.0) == 1.0 + 0j
    assert match_complex(1.0, 1.0 + 2j) == 1.0
    assert_plain(replace_zero(onp.array([0.0, 2.0]), 1.0), [1.0, 2.0])
    assert_plain(balanced_eq(onp.array([1.0, 2.0]), onp.array([2.0, 2.0]), onp.array([2.0, 2.0])), [0.0, 0.5])
    repeated, count = repeat_to_match_shape(onp.array([1.0, 2.0]), (2, 3), float, 1, False)
    assert_plain(repeated, [[1.0] * 3, [2.0] * 3])
    assert count == 3
    assert repeat_to_match_shape(1.0, (), float, None, False) == (1.0, 1)
    assert_plain(broadcast(1.0, onp.ones(2)), [1.0, 1.0])
    ours: dict = {}
    wrap_namespace({"sin": onp.sin, "own": lambda x: x + 1.0, "pi": onp.pi}, ours)
    assert ours["sin"] is onp.sin
    assert ours["own"](1.0) == 2.0
    assert builtins.type(ours["own"]).__name__ == "Primitive"


# What is traced


def test_boxes():
    def f(x):
        assert isbox(x)
        assert not isbox(x > 0)
        assert builtins.isinstance(x, (ArrayBox, Box))
        assert ag_isinstance(x, onp.ndarray)
        assert ag_type(x) is onp.ndarray
        assert ag_type(x[0]) is onp.float64
        assert builtins.type(x._value) is onp.ndarray
        return np.sum(x)

    grad(f)(VECTOR)
    assert not isbox(VECTOR)
    assert not builtins.isinstance(VECTOR, Box)
    Box.register(onp.ndarray)
    with pytest.raises(NotImplementedError, match="would create a traced value"):
        new_box(1.0, 0, None)


def test_values_of_nested_traces():
    def outer(x):
        def inner(y):
            assert isbox(y._value)  # of the outer one
            assert builtins.isinstance(y._value._value, float)
            assert not isbox(getval(y))
            return y * getval(y)

        return grad(inner)(x)

    assert grad(lambda x: x * outer(x))(3.0) == 3.0
    assert grad(lambda x: getval(x) * 1.0)(3.0) == 0.0


def test_python_containers():
    assert grad(lambda x: make_tuple((x, x))[0])(1.0) == 1.0
    assert grad(lambda x: make_list([x, x * 2])[1])(1.0) == 2.0
    assert grad(lambda x: make_dict(a=x)["a"])(1.0) == 1.0
    assert (
        grad(lambda d: d["x"] * (1.0 if builtins.isinstance(d, autograd.builtins.DictBox) else 2.0))({"x": 3.0})["x"]
        == 1.0
    )
    assert not builtins.isinstance([1.0], autograd.builtins.SequenceBox)
    assert ag_isinstance((1.0,), make_tuple)
    assert ag_isinstance({}, make_dict)


def test_nodes():
    def root(x):
        return np.sin(x) * x + np.exp(-x)

    value, end = trace(VJPNode.new_root(), root, 1.3)
    assert_plain(value, root(1.3))
    assert_plain(backward_pass(1.0, end), grad(root)(1.3))
    assert_plain(trace(JVPNode.new_root(1.0), root, 1.3)[1].g, grad(root)(1.3))
    assert trace(VJPNode.new_root(), lambda x: 2.0, 1.3) == (2.0, None)

    class Named(Node):
        def __init__(self, value, fun, args, kwargs, parent_argnums, parents):
            self.names = [*parents[0].names, fun.__name__]

        def initialize_root(self):
            self.names = []

    assert trace(Named.new_root(), lambda x: np.sum(np.tanh(x)), VECTOR)[1].names == ["tanh", "sum"]
    node = full_graph(root, 1.3)
    assert_plain(node.value, root(1.3))
    assert node.recipe[0].__name__ == "add"
    assert [n.value is None for n in toposort(node, lambda n: [p for _, p in n.recipe[3]])][-1]


def test_small_helpers():
    assert subvals((1, 2, 3), [(0, 5), (2, 7)]) == (5, 2, 7)
    assert subval([1, 2], 1, 9) == (1, 9)
    twice = unary_to_nary(lambda fun, x, factor=2.0: factor * fun(x))
    assert twice(lambda x, y: x + y, 1, factor=3.0)(1.0, 2.0) == 9.0
    runs = []
    recorded = const_graph(lambda c, x: runs.append(None) or np.sin(c * x), 2.0)
    assert_plain(recorded(1.0), onp.sin(2.0))
    assert_plain(recorded(2.0), onp.sin(4.0))
    assert len(runs) == 1


# Vector spaces


def test_vector_spaces():
    value = {"a": [VECTOR, 1.0], "b": (onp.ones(2) * 1j,)}
    space = vspace(value)
    assert space.size == 8
    assert space == vspace(space.randn())
    assert space != vspace({"a": 1.0})
    assert vspace(VECTOR) == ArrayVSpace(onp.zeros(3))
    assert vspace(1j) == ComplexArrayVSpace(0j)
    assert vspace(1j).size == 2
    assert_plain(space.inner_prod(value, value), 14.0 + 1.0 + 2.0)
    assert space.covector(value)["b"][0][0] == -1j
    assert_plain(space.add(value, space.scalar_mul(value, 2.0))["a"][0], 3 * VECTOR)
    assert_plain(space.mut_add(None, value)["a"][0], VECTOR)
    assert len([*space.standard_basis()]) == 8
    total = space.zeros()
    for unit in space.standard_basis():
        total = space.add(total, unit)
    assert_plain(space.add(total, space.scalar_mul(space.ones(), -1.0))["b"][0], onp.zeros(2))
    assert "ArrayVSpace(shape=(3,)" in repr(vspace(VECTOR))
    with pytest.raises(TypeError, match="has no registered vector space"):
        vspace("text")


def test_a_space_of_ones_own():
    class Angle(float):
        pass

    class AngleSpace(VSpace):
        def zeros(self):
            return Angle(0.0)

    AngleSpace.register(Angle)
    assert builtins.type(vspace(Angle(1.0))) is AngleSpace
    VSpace.register(Angle, lambda value: ArrayVSpace(float(value)))
    assert vspace(Angle(1.0)).size == 1
    with pytest.raises(NotImplementedError):
        AngleSpace(None).ones()
    assert SparseObject(vspace(1.0), lambda x: x + 1.0).vs == vspace(1.0)


# Values of other types


class Polynomial:
    """A value that has a derivative as a whole: its gradient may have other powers than itself."""

    def __init__(self, coefficients):
        self.coefficients = coefficients


class PolynomialBox(Box):
    def __mul__(self, factor):
        return vspace(self).scalar_mul(self, factor)


class PolynomialSpace(VSpace):
    def zeros(self):
        return Polynomial({})

    def _add(self, f, g):
        powers = {*f.coefficients, *g.coefficients}
        return Polynomial({k: f.coefficients.get(k, 0.0) + g.coefficients.get(k, 0.0) for k in powers})

    _mut_add = _add

    def _scalar_mul(self, f, factor):
        return Polynomial({k: c * factor for k, c in f.coefficients.items()})

    def _inner_prod(self, f, g):
        return sum([c * g.coefficients.get(k, 0.0) for k, c in f.coefficients.items()], 0.0)


@pytest.fixture
def polynomials():
    """Register the type for one test, since it makes others take another path."""
    PolynomialBox.register(Polynomial)
    PolynomialSpace.register(Polynomial)
    yield
    BOXED.clear()
    BOX_CLASSES.clear()
    del VSpace.mappings[Polynomial]


POLYNOMIALS = PolynomialSpace(None)
CUBIC = Polynomial({0: 1.0, 1: 2.0, 3: 0.5})


@primitive
def at(f, x):
    return sum([c * x**k for k, c in f.coefficients.items()], 0.0)


@primitive
def monomials(f, x):
    return Polynomial({k: x**k for k in f.coefficients})


@primitive
def slope(f):
    return Polynomial({k - 1: k * c for k, c in f.coefficients.items() if k})


defvjp(
    at,
    lambda ans, f, x: lambda g: POLYNOMIALS.scalar_mul(monomials(f, x), g),
    lambda ans, f, x: lambda g: g * at(slope(f), x),
)
defvjp(
    monomials,
    None,
    lambda ans, f, x: lambda g: sum(g.coefficients.get(k, 0.0) * k * x ** (k - 1) for k in f.coefficients),
)
defvjp(
    slope,
    lambda ans, f: lambda g: Polynomial({k: k * g.coefficients.get(k - 1, 0.0) for k in f.coefficients if k}),
)
defjvp(at, lambda g, ans, f, x: at(g, x), lambda g, ans, f, x: g * at(slope(f), x))


@pytest.mark.usefixtures("polynomials")
def test_a_value_of_a_registered_type_is_differentiated_as_a_whole():
    found = grad(lambda f: at(f, 2.0) ** 2 + at(f, 3.0))(CUBIC)
    assert builtins.type(found) is Polynomial
    assert found.coefficients == {0: 19.0, 1: 39.0, 3: 171.0}
    value, found = value_and_grad(lambda f: np.sin(at(f, 0.0)))(CUBIC)
    assert (value, found.coefficients[0]) == (np.sin(1.0), np.cos(1.0))
    assert grad(at, 1)(CUBIC, 2.0) == 8.0
    assert grad(grad(at, 1), 1)(CUBIC, 2.0) == 6.0
    found = grad(lambda d: at(d["f"], d["x"]))({"f": CUBIC, "x": 2.0})
    assert found["f"].coefficients == {0: 1.0, 1: 2.0, 3: 8.0}
    assert found["x"] == 8.0
    pullback, value = make_vjp(slope)(CUBIC)
    assert value.coefficients == {0: 2.0, 2: 1.5}
    assert pullback(Polynomial({2: 1.0})).coefficients == {1: 0.0, 3: 3.0}
    assert make_jvp(lambda f: at(f, 2.0) ** 2)(CUBIC)(Polynomial({1: 1.0})) == (81.0, 36.0)
    assert grad(lambda f: 1.0)(CUBIC).coefficients == {}
    aux = []
    grad_and_aux(lambda f: (at(f, 1.0), aux.append(f) or "text"))(CUBIC)
    assert builtins.isinstance(aux[0], PolynomialBox)


@pytest.mark.usefixtures("polynomials")
def test_the_operations_of_a_space_have_derivatives():
    """As in Autograd, they are primitives, so that rules that use them can be differentiated."""
    assert grad(lambda f: at(f * 3.0, 1.0))(CUBIC).coefficients == {0: 3.0, 1: 3.0, 3: 3.0}
    assert grad(lambda a: at(POLYNOMIALS.scalar_mul(CUBIC, a), 2.0))(3.0) == 9.0
    assert grad(lambda f: POLYNOMIALS.inner_prod(f, f))(CUBIC).coefficients == {0: 2.0, 1: 4.0, 3: 1.0}
    assert grad(lambda f: at(POLYNOMIALS.add(f, f), 1.0))(CUBIC).coefficients == {0: 2.0, 1: 2.0, 3: 2.0}
    # of a gradient that is a polynomial itself
    assert grad(lambda x: at(grad(lambda f: at(f, x) ** 2)(CUBIC), 1.5))(2.0) == 1252.0
    found = grad(lambda f: POLYNOMIALS.inner_prod(grad(lambda g: at(g, 2.0) ** 2)(f), CUBIC))(CUBIC)
    assert found.coefficients == {0: 18.0, 1: 36.0, 3: 144.0}


@pytest.mark.usefixtures("polynomials")
def test_boxes_of_registered_types():
    def f(x):
        assert builtins.isinstance(x, (Box, PolynomialBox))
        assert not builtins.isinstance(x, ArrayBox)
        assert isbox(x)
        assert x
        assert x._value is getval(x) is CUBIC
        assert "Autograd PolynomialBox with value <" in str(x)
        assert builtins.type(vspace(x)) is PolynomialSpace
        return at(x, 1.0)

    assert grad(f)(CUBIC).coefficients == {0: 1.0, 1: 1.0, 3: 1.0}
    assert not builtins.isinstance(CUBIC, Box)

    def nested(x):
        return at(CUBIC, at(CUBIC, 1.0) * grad(lambda f: at(f, x))(CUBIC).coefficients[1])

    assert nested(2.0) == at(CUBIC, 7.0)

    class Bare:
        pass

    PolynomialBox.register(Bare)
    with pytest.raises(TypeError, match="Bare has a box, but no vector space"):
        grad(lambda x: 1.0)(Bare())


# Checks


def test_checks_find_wrong_rules():
    wrong = primitive(lambda x: x * 2.0)
    defvjp(wrong, lambda ans, x: lambda g: g * 2.001)
    with pytest.raises(AssertionError, match=r"\(VJP\) check of <lambda> failed"):
        check_grads(wrong, modes=["rev"])(1.0)
    defvjp(wrong, lambda ans, x: lambda g: g * 2.0)
    defjvp(wrong, lambda g, ans, x: g * 2.001)
    with pytest.raises(AssertionError, match="is not"):
        check_jvp(wrong, 1.0)
    check_vjp(wrong, 1.0)
    with pytest.raises(AssertionError, match="in ArrayVSpace"):
        check_equivalent(onp.ones(2), onp.ones(3))
    with pytest.raises(errors.ParameterError, match="modes must be"):
        check_grads(np.sin, modes=["both"])(1.0)
    assert scalar_close(1.0, 1.0 + 1e-9)
    assert not scalar_close(1.0, 1.1)
    combo_check(np.sum, [0], order=1)([onp.ones((2, 2)), onp.ones((1, 2))], axis=[None, 0], keepdims=[True, False])
    with pytest.warns(DeprecationWarning, match="old form of Autograd|quick_grad_check"):
        quick_grad_check(lambda x, y: x**2 + y, 1.0, (2.0,))


# NumPy's names


def test_arrays_are_plain_and_writable_where_nothing_is_traced():
    for made in (
        np.array([1.0, 2.0]),
        np.zeros(3),
        np.stack([1.0, 2.0]),
        np.full(2, 3.0),
        np.concatenate([[1.0], [2.0]]),
    ):
        assert builtins.type(made) is onp.ndarray
        made[0] = 5.0
    assert np.pi == onp.pi
    assert np.float64 is onp.float64
    assert np.__version__ == onp.__version__
    with pytest.raises(AttributeError, match="no_such_name"):
        np.no_such_name  # noqa: B018


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda x: np.array([x, x**2]), 7.0),
        (lambda x: np.array([[x, 1.0], [0.0, x**2]]), 7.0),
        (lambda x: np.array((x, x), dtype=float), 2.0),
        (lambda x: np.asarray([x, 2 * x]), 3.0),
        (lambda x: np.array(x, ndmin=2), 1.0),
        (lambda x: np.full((2, 2), x), 4.0),
        (lambda x: np.linspace(0.0, x, 3), 1.5),
        (lambda x: np.stack(x * i for i in range(4)), 6.0),
        (lambda x: np.concatenate({"a": np.array([x]), "b": np.array([x, x])}.values()), 3.0),
        (lambda x: np.concatenate([[x, 1.0], [2 * x]]), 3.0),
        (lambda x: np.vstack(([x, x], np.ones(2))), 2.0),
        (lambda x: np.row_stack(([x, x], np.ones(2))), 2.0),
        (lambda x: np.hstack((x, np.ones(2), [x])), 2.0),
        (lambda x: np.dstack([np.array([x]), np.array([x])]), 2.0),
        (lambda x: np.column_stack(([x, x], np.ones(2))), 2.0),
        (lambda x: np.block([[np.array([[x]]), np.ones((1, 1))]]), 1.0),
        (lambda x: np.append(np.ones(2), x), 1.0),
        (lambda x: np.append([1.0, x], [x, x]), 3.0),
        (lambda x: np.r_[x, 1.0, x], 2.0),
        (lambda x: np.c_[np.array([x]), np.ones(1)], 1.0),
        (lambda x: np.select([np.array([True, False])], [[x, x]], 0.0), 1.0),
        (lambda x: np.where(np.array([True, False]), [x, x], 0.0), 1.0),
        (lambda x: np.mean([x, 3 * x]), 2.0),
        (lambda x: np.sum([x, 3 * x]), 4.0),
        (lambda x: np.max([x, 3 * x]), 3.0),
        (lambda x: np.dot([x, 1.0], [2.0, 1.0]), 2.0),
        (lambda x: np.linalg.det([[x, 1.0], [0.0, x]]), 6.0),
        (lambda x: np.make_diagonal(np.array([x, x]), axis1=-1, axis2=-2), 2.0),
        (lambda x: np.numpy_wrapper.concatenate_args(0, np.array([x]), np.array([x])), 2.0),
        (lambda x: np.numpy_wrapper.array_from_args((), {}, x, x), 2.0),
        (lambda x: np.real(np.fft.fft(np.array([x, 2.0])))[0], 1.0),
        (lambda x: np.array([x])[0].flatten(), 1.0),
    ],
)
def test_functions_of_traced_numbers(make, expected):
    assert_plain(grad(lambda x: np.sum(make(x)))(3.0), expected)


def test_where_returns_what_autograds_does():
    assert np.where(True, 1, 2) == 1
    assert np.where([True, False], [1.0, 2.0], [3.0, 4.0]) == [1.0, 4.0]
    assert_plain(np.where(condition=[True, False], x=onp.ones(2), y=0.0), [1.0, 0.0])
    assert np.where(onp.array([0, 1]))[0] == [1]
    with pytest.raises(errors.ParameterError, match="both x and y"):
        np.where(True, 1)
    with pytest.raises(errors.ParameterError, match="axis1=-1"):
        np.make_diagonal(VECTOR)


def test_star_import():
    place: dict = {}
    exec("from fgrad.compat.autograd.numpy import *", place)
    assert place["sin"] is onp.sin
    assert builtins.type(place["array"]([1.0])) is onp.ndarray
    assert {"linalg", "fft", "random", "make_diagonal", "row_stack", "pi"} <= set(place)


def test_the_gradient_of_a_factor_is_symmetric():
    matrix = onp.array([[2.0, 0.5], [0.5, 1.0]])
    found = grad(lambda a: np.sum(linalg.cholesky(a) ** 3))(matrix)
    assert_plain(found, found.T)
    assert_plain(
        onp.tril(found) * (2 - onp.eye(2)), fg.grad(lambda a: onp.sum(onp.linalg.cholesky(a) ** 3))(matrix).numpy()
    )
    assert_plain(linalg.cholesky(matrix), onp.linalg.cholesky(matrix))
    check_grads(lambda a: linalg.cholesky(np.dot(a, linalg.T(a)) + np.eye(2)))(matrix)


def test_random_numbers():
    npr.seed(0)
    first = npr.randn(3)
    onp.random.seed(0)
    assert_plain(first, onp.random.randn(3))


# SciPy's names


def test_distributions():
    assert_plain(grad(norm.logpdf)(1.0), -1.0)
    assert_plain(grad(stats.norm.logcdf)(0.0), onp.sqrt(2 / onp.pi))
    assert_plain(grad(norm.logpdf, 2)(1.0, 0.0, 2.0), -0.375)
    assert_plain(norm.logpdf(0.0), -0.5 * onp.log(2 * onp.pi))
    cov = onp.array([[2.0, 0.3], [0.3, 1.0]])
    x = onp.array([0.5, -1.0])
    assert_plain(grad(stats.multivariate_normal.logpdf)(x, onp.zeros(2), cov), -onp.linalg.solve(cov, x))
    for name, arguments in {
        "t": (1.3, 4.0),
        "beta": (0.3, 2.0, 3.0),
        "gamma": (1.3, 2.0),
        "chi2": (1.3, 4.0),
    }.items():
        logpdf = getattr(stats, name).logpdf
        assert_plain(grad(logpdf)(*arguments), fg.grad(getattr(fg_stats(), name).logpdf)(*arguments).numpy())
        check_grads(logpdf, modes=["rev"])(*arguments)
    assert_plain(grad(stats.poisson.logpmf, 1)(3, 2.0), 0.5)
    assert_plain(grad(stats.dirichlet.logpdf, 1)(onp.array([0.2, 0.8]), onp.ones(2)), onp.log([0.2, 0.8]) + 1.0)
    assert stats.norm.rvs(size=2, random_state=0).shape == (2,)


def fg_stats():
    import fgrad.scipy.stats

    return fgrad.scipy.stats


def test_a_singular_covariance():
    law, cov = stats.multivariate_normal, onp.diag([4.0, 1.0, 0.0])
    x = onp.array([1.0, 2.0, 0.0])
    assert_plain(grad(law.logpdf)(x, onp.zeros(3), cov, True), [-0.25, -2.0, 0.0])
    value = value_and_grad(law.pdf)(x, onp.zeros(3), cov, True)[0]
    assert_plain(value, law.pdf(x, onp.zeros(3), cov, allow_singular=True))
    assert value_and_grad(law.logpdf)(x + 1.0, onp.zeros(3), cov, True)[0] == -onp.inf


def test_special_functions():
    assert_plain(grad(special.gammaln)(1.0), -onp.euler_gamma)
    assert_plain(grad(special.logsumexp)(onp.zeros(2)), [0.5, 0.5])
    assert_plain(grad(lambda x: special.logsumexp([x, 2 * x]))(0.0), 1.5)
    assert_plain(elementwise_grad(special.expit)(onp.zeros(2)), [0.25, 0.25])
    assert_plain(special.erf(0.0), 0.0)


@pytest.mark.parametrize("mode", ["full", "valid", "same"])
def test_convolutions(mode):
    x, y = onp.arange(6.0), onp.array([1.0, -2.0, 0.5])
    assert_plain(signal.convolve(x, y, mode=mode), onp.convolve(x, y, mode))
    assert_plain(signal.convolve(y, x, mode="full"), onp.convolve(y, x, "full"))
    check_grads(lambda x, y: signal.convolve(x, y, mode=mode), (0, 1), order=1)(x, y)
    images, kernels = npr.randn(2, 3, 5, 6), npr.randn(3, 4, 3, 2)
    options = {"axes": ([2, 3], [2, 3]), "dot_axes": ([1], [0]), "mode": mode}
    found = signal.convolve(images, kernels, **options)
    import scipy.signal

    for i in range(2):
        for k in range(4):
            one = sum(scipy.signal.convolve(images[i, c], kernels[c, k], mode) for c in range(3))
            assert_plain(found[i, k], one)
    swapped = signal.convolve(kernels, images, axes=([2, 3], [2, 3]), dot_axes=([0], [1]), mode="full")
    assert_plain(swapped.swapaxes(0, 1), signal.convolve(images, kernels, axes=([2, 3], [2, 3]), dot_axes=([1], [0])))
    check_grads(lambda a, b: signal.convolve(a, b, **options), (0, 1), order=1)(images, kernels)
    with pytest.raises(errors.ParameterError, match="mode must be 'full'"):
        signal.convolve(x, y, mode="all")


def test_odeint():
    times = onp.linspace(0.0, 1.0, 5)

    def end(rate, start):
        return odeint(lambda y, t, rate: -rate * y, np.array([start]), times, (rate,))[-1, 0]

    assert_allclose(grad(end, (0, 1))(0.7, 2.0), [-2.0 * onp.exp(-0.7), onp.exp(-0.7)], rtol=1e-5)


# misc


def test_flatten():
    tree = {"b": 1.0, "a": [onp.ones((2, 2)), (2.0, 3)]}
    vector, unflatten = flatten(tree)
    assert_plain(vector, [1.0, 1.0, 1.0, 1.0, 2.0, 3.0, 1.0])
    assert_plain(unflatten(vector * 2)["a"][0], 2 * onp.ones((2, 2)))
    assert flatten(())[0].shape == (0,)
    assert_plain(grad(lambda x: np.sum(flatten([x, {"y": x**2}])[0]))(2.0), 5.0)
    function, back, example = flatten_func(lambda p: p["b"] * np.sum(p["a"][0]), tree)
    assert_plain(function(example), [4.0])
    assert back(example)["b"] == 1.0


@pytest.mark.parametrize(("optimizer", "step_size"), [(adam, 0.1), (sgd, 0.1), (rmsprop, 0.01)])
def test_optimizers(optimizer, step_size):
    seen = []

    def loss(params, i):
        return np.sum((params["a"] - 1.0) ** 2) + (params["b"] - 2.0) ** 2

    start = {"a": onp.zeros(2), "b": 5.0}
    found = optimizer(grad(loss), start, lambda x, i, g: seen.append((i, x["b"], g["b"])), 600, step_size=step_size)
    assert_allclose(found["a"], onp.ones(2), atol=1e-2)
    assert_allclose(found["b"], 2.0, atol=1e-2)
    assert len(seen) == 600
    assert seen[0] == (0, 5.0, 6.0)


def test_a_fixed_point():
    def newton(a):
        return lambda x: 0.5 * (x + a / x)

    def root(a):
        return fixed_point(newton, a, 1.0, lambda x, y: np.abs(x - y), 1e-12)

    assert_plain(root(2.0), onp.sqrt(2.0))
    assert_plain(grad(root)(2.0), 0.5 / onp.sqrt(2.0))
    assert_plain(grad(grad(root))(2.0), -0.25 * 2.0**-1.5)


# `import autograd`

CLIENT = """
import autograd
import autograd.numpy as np
import autograd.numpy.random as npr
import autograd.scipy.stats.norm as norm
from autograd import grad, jacobian
from autograd.scipy.stats import norm as same
from autograd.numpy.linalg import solve
from autograd.extend import primitive, defvjp
from autograd.numpy.numpy_boxes import ArrayBox
import autograd.misc.optimizers
import sys
assert autograd.__name__ == "fgrad.compat.autograd", autograd
assert norm is same and norm is autograd.scipy.stats.norm
assert autograd.numpy is np is sys.modules["fgrad.compat.autograd.numpy"]
print(grad(lambda x: np.sum(x**2))(np.ones(2)), grad(norm.logpdf)(1.0), *sys.argv[1:])
try:
    import autograd.no_such_module
except ModuleNotFoundError as error:
    print(error)
"""


def run(*arguments):
    found = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    return found.stdout + found.stderr


@pytest.mark.slow
def test_a_program_that_imports_autograd(tmp_path):
    script = tmp_path / "client.py"
    script.write_text(CLIENT)
    expected = "[2. 2.] -1.0 --fast\nNo module named 'autograd.no_such_module'\n"
    assert run("-m", "fgrad.compat.autograd", str(script), "--fast") == expected
    assert run("-c", f"from fgrad.compat.autograd import install; install(); install()\n{CLIENT}", "--fast") == expected
    assert "usage: python -m fgrad.compat.autograd" in run("-m", "fgrad.compat.autograd")
    assert run("-m", "fgrad.compat.autograd", "-m", "this").startswith("The Zen of Python")


def test_install_refuses_where_autograd_has_been_imported(tmp_path):
    (tmp_path / "autograd.py").write_text("")
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport autograd\n"
    said = run("-c", program + "import fgrad.compat.autograd as a; a.install()")
    assert "StateError: Autograd itself is already imported, from" in said


def test_fgrad_loads_none_of_it():
    program = "import sys, fgrad; fgrad.grad(lambda x: x)(1.0); print([m for m in sys.modules if 'fgrad.compat.' in m])"
    assert run("-c", program) == "[]\n"


@pytest.mark.parametrize(
    "program",
    [
        "grad(lambda x: np.sum(np.tanh(x) * x[::-1]))(x)",
        "hessian(lambda x: np.prod(x) + np.sum(np.exp(x)))(x)",
        "jacobian(lambda x: np.outer(x, np.sin(x)))(x)",
        "grad(lambda z: np.real(np.sum(np.abs(z) * z**2)))(x + 1j)",
        "make_vjp(lambda z: np.fft.fft(z * np.conj(z)), 0)(x + 2j)[0](x * 1j)",
        "grad(lambda a: np.sum(np.linalg.cholesky(a)**2 * np.arange(9.0).reshape(3, 3)))(np.eye(3) + 0.1)",
        "deriv(lambda z: z**2)(1 + 2j)",
    ],
)
def test_the_same_as_autograd_itself(program):
    """Compare with Autograd where it is installed beside fgrad."""
    theirs = pytest.importorskip("autograd")
    pytest.importorskip("autograd.numpy")
    names = ("grad", "hessian", "jacobian", "make_vjp", "deriv")
    here = {"np": np, "x": VECTOR, **{name: getattr(autograd, name) for name in names}}
    there = {
        "np": theirs.numpy,
        "x": VECTOR,
        **{name: getattr(theirs, name) for name in names[:4]},
        "deriv": theirs.deriv,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_allclose(eval(program, here), eval(program, there), rtol=1e-8, atol=1e-10)


def test_every_name_of_the_package():
    for name in autograd.__all__:
        assert hasattr(autograd, name)
    assert importlib.util.find_spec("fgrad.compat.autograd.__main__")
