"""The checker itself: a rule that is wrong by 0.1 % must not pass."""

import numpy as np
import pytest

import fgrad as fg
from fgrad import errors
from fgrad.core.primitive import PRIMITIVES, Primitive
from fgrad.core.tensor import apply
from fgrad.testing import calls, check_grads

X = np.array([0.3, 0.7, 1.1])


def made(vjp=lambda ans, x: lambda ct: ct * np.cos(x), jvp=lambda tangents, ans, x: tangents[0] * np.cos(x)):
    # Not the ufunc itself, which would find the primitive of the table under another trace.
    primitive = Primitive("sine", lambda x: np.sin(x), (vjp,), jvp)
    return lambda x: apply(primitive, (x,))


def test_right_rules_pass():
    check_grads(made(), (X,), order=3)


@pytest.mark.parametrize("off", [1.001, 0.999])
def test_a_wrong_reverse_rule_fails(off):
    with pytest.raises(errors.GradientCheckError, match="the reverse derivative is"):
        check_grads(made(vjp=lambda ans, x: lambda ct: off * ct * np.cos(x)), (X,), order=1)


@pytest.mark.parametrize("off", [1.001, 0.999])
def test_a_wrong_forward_rule_fails(off):
    with pytest.raises(errors.GradientCheckError, match="the forward derivative is"):
        check_grads(made(jvp=lambda tangents, ans, x: off * tangents[0] * np.cos(x)), (X,), order=1)


@pytest.mark.parametrize(("mode", "name"), [("fwd", "forward"), ("rev", "reverse")])
def test_a_wrong_second_derivative_fails(mode, name):
    """The first derivative is right; that it depends on x is hidden from the second."""

    def slope(x):
        return np.cos(fg.stop_gradient(x))

    f = made(lambda ans, x: lambda ct: ct * slope(x), lambda tangents, ans, x: tangents[0] * slope(x))
    check_grads(f, (X,), order=1)
    with pytest.raises(errors.GradientCheckError, match=f"the {name} then"):
        check_grads(f, (X,), order=2, modes=(mode,))


def test_arguments_come_in_a_tuple():
    for args in (0.5, np.array([0.5, 1.0])):
        with pytest.raises(errors.ParameterError, match=r"Write check_grads\(f, \(x,\)\)"):
            check_grads(np.sin, args)


def test_only_the_modes_that_are_asked_for():
    check_grads(made(vjp=lambda ans, x: lambda ct: ct), (X,), order=1, modes=("fwd",))
    check_grads(made(jvp=lambda tangents, ans, x: tangents[0]), (X,), order=1, modes=("rev",))


def test_a_missing_conjugate_is_found():
    z = np.array([0.3 + 0.4j])
    with pytest.raises(errors.GradientCheckError, match="the reverse derivative is"):
        check_grads(made(vjp=lambda ans, x: lambda ct: ct * np.conjugate(np.cos(x))), (z,), order=1)


def test_containers():
    check_grads(lambda p: {"s": p["a"] * p["b"][0], "t": (p["b"][0] ** 2,)}, ({"a": X, "b": [X]},))
    with pytest.raises(errors.GradientCheckError, match=r"derivative\['t'\]"):
        check_grads(lambda p: {"s": p, "t": fg.stop_gradient(p) ** 2}, (X,), order=1)


def test_a_kink_is_found():
    with pytest.raises(errors.GradientCheckError, match="finite differences give"):
        check_grads(np.abs, (np.array([1e-5]),), order=1)


def test_calls_leave_out_what_a_dtype_does_not_allow():
    assert list(calls(PRIMITIVES["arctan2"], np.complex128)) == []
    assert {call.arrays[0].dtype for call in calls(PRIMITIVES["sin"], np.complex64)} == {np.dtype(np.complex64)}


def test_another_value_than_on_plain_arrays():
    def shifted(x):
        return np.sin(x) + (1.0 if isinstance(x, fg.Tensor) else 2.0)

    for modes in (("fwd",), ("rev",), ("fwd", "rev")):
        with pytest.raises(errors.GradientCheckError, match=r"^the value is\n(.|\n)*with the derivatives, but f gives"):
            check_grads(shifted, (0.5,), modes=modes)
    with pytest.raises(errors.GradientCheckError, match=r"^the value\['y'\] is\n"):
        check_grads(lambda p: {"y": shifted(p[0])}, ([np.ones(2)],))


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e-9])
@pytest.mark.parametrize("modes", [("fwd",), ("rev",)])
def test_a_rule_that_is_wrong_by_a_fifth_is_found_however_small_the_slope(scale, modes):
    @fg.custom_jvp
    def scaled(x):
        return scale * np.sin(x)

    for factor in (1.0, 1.2):
        scaled.defjvp(lambda p, t, f=factor: (scaled(*p), f * scale * np.cos(p[0]) * t[0]))
        if factor == 1.0:
            check_grads(scaled, (np.array([0.3, 1.0]),), order=1, modes=modes)
        else:
            with pytest.raises(errors.GradientCheckError, match="finite differences give"):
                check_grads(scaled, (np.array([0.3, 1.0]),), order=1, modes=modes)


@pytest.mark.parametrize("modes", [("fwd",), ("rev",)])
def test_a_rule_that_is_wrong_by_a_fifth_is_found_beside_a_large_value(modes):
    """The slope is 1.1e-9, and the value 1."""

    @fg.custom_jvp
    def saturated(x):
        return np.tanh(x)

    for factor in (1.0, 1.2):
        saturated.defjvp(lambda p, t, f=factor: (saturated(*p), f / np.cosh(p[0]) ** 2 * t[0]))
        if factor == 1.0:
            check_grads(saturated, (np.array([11.0]),), order=1, modes=modes)
        else:
            with pytest.raises(errors.GradientCheckError, match="finite differences give"):
                check_grads(saturated, (np.array([11.0]),), order=1, modes=modes)
