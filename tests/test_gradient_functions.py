"""The gradient functions: what they accept, what they return, and how they nest."""

import copy
import functools
import inspect
import itertools
import math
import pickle
from collections import OrderedDict, namedtuple

import numpy as np
import pytest
from helpers import along, plain

import fgrad as fg
import fgrad.numpy
from fgrad.errors import IntegerInputError, NoGradientWarning, NonNumericInputError, NonScalarError


def f(x, y):
    """A cubic."""
    return x**3 * y - x * y**2


# gradients_function


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (None, [27.0, -4.0]),
        (["y"], [-4.0]),
        ([1], [-4.0]),
        (["x", "y"], [27.0, -4.0]),
        (["y", "x"], [-4.0, 27.0]),
        ([0, 0], [27.0, 27.0]),
        (["y", "y"], [-4.0, -4.0]),
        ([], []),
        ("y", [-4.0]),
        (1, [-4.0]),
        (0, [27.0]),
        ((1, 0), [-4.0, 27.0]),
        ([-1], [-4.0]),
        (-2, [27.0]),
    ],
)
def test_params(params, expected):
    result = fg.gradients_function(f, params=params)(2.0, 3.0)
    assert type(result) is list
    assert plain(result) == expected
    value, gradients = fg.value_and_gradients_function(f, params)(2.0, 3.0)
    assert plain(value) == 6.0
    assert type(gradients) is list
    assert plain(gradients) == expected
    value, vjp = fg.make_vjp(f, params)(2.0, 3.0)
    assert (plain(value), plain(vjp())) == (6.0, expected)


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ([5], "position 5 .*2"),
        (5, "position 5 .*x, y"),
        ([-3], "position -3 .*2"),
        (["z"], "f has no parameter 'z'.*x, y"),
        ("z", "f has no parameter 'z'.*x, y"),
        (["x", 1], r"all names or all positions.*\['x', 1\]"),
    ],
)
@pytest.mark.parametrize("transform", [fg.gradients_function, fg.value_and_gradients_function, fg.make_vjp])
def test_params_that_do_not_fit(transform, params, text):
    with pytest.raises(ValueError, match=text):
        transform(f, params=params)(2.0, 3.0)


@pytest.mark.parametrize(("argnums", "text"), [(2, "position 2.*2"), ("z", "no parameter 'z'.*x, y")])
@pytest.mark.parametrize("transform", [fg.grad, fg.value_and_grad])
def test_argnums_that_do_not_fit(transform, argnums, text):
    with pytest.raises(ValueError, match=text):
        transform(f, argnums=argnums)(2.0, 3.0)


def test_two_parameters():
    assert plain(fg.gradients_function(lambda x, y: 2 * x + 3 * y)(5.0, 7.0)) == [2.0, 3.0]


def test_weights_as_arguments_by_name():
    def g(x1, x2, w1, w2):
        return w1 * x1 + w2 * x2

    assert plain(fg.gradients_function(g, params=["w1", "w2"])(5.0, 7.0, 2.0, 3.0)) == [5.0, 7.0]


def test_the_same_object_as_two_arguments():
    for o in (fg.constant(3.0), np.float64(3.0), np.array(3.0), fg.Variable(3.0), 3.0):
        assert plain(fg.gradients_function(lambda x, y: x * y * y)(o, o)) == [9.0, 18.0]
        assert plain(fg.grad(lambda x, y: x * y * y, argnums=(0, 1))(o, o)) == (9.0, 18.0)
        _, pullback = fg.vjp(lambda x, y: x * y * y, o, o)
        assert plain(pullback(1.0)) == (9.0, 18.0)


def test_the_same_container_as_two_arguments():
    pair = [2.0, 3.0]
    result = fg.gradients_function(lambda p, q: p[0] * q[1] * q[1])(pair, pair)
    assert [[v if v is None else v.item() for v in p] for p in result] == [[9.0, None], [None, 12.0]]


@pytest.mark.parametrize("x", [3, True, np.int64(3), np.array([1, 2]), fg.constant(3), fg.Variable(3)])
def test_an_integer_argument_has_no_gradient(x):
    with pytest.warns(NoGradientWarning, match="gradient of <lambda> is None.*argument 'x'.*floating-point"):
        assert fg.gradients_function(lambda x: x * x)(x) == [None]
    with pytest.warns(NoGradientWarning, match="argument 'y'"):
        first, second = fg.gradients_function(lambda x, y: np.sum(x * x + y))(3.0, x)
    assert second is None
    assert first.item() == 6.0 * np.size(x)
    assert fg.gradients_function(lambda x, y: x * x, params=["x"])(3.0, x)[0].item() == 6.0


@pytest.mark.parametrize("x", [3, True, np.int64(3), np.array([1, 2]), fg.constant(3), fg.Variable(3)])
def test_grad_refuses_an_integer(x):
    with pytest.raises(TypeError, match="argument 'x'.*\n.*3.0 instead of 3"):
        fg.grad(lambda x: np.sum(x * x))(x)
    with pytest.raises(TypeError, match="argument 'y'"):
        fg.value_and_grad(lambda x, y: np.sum(x * y), argnums=(0, 1))(2.0, x)


def test_an_integer_inside_a_container():
    with pytest.warns(NoGradientWarning, match=r"argument 'p'\['n'\] is 2"):
        (gradient,) = fg.gradients_function(lambda p: p["x"] ** p["n"])({"x": 3.0, "n": 2})
    assert plain(gradient) == {"x": 6.0, "n": None}
    with pytest.raises(TypeError, match=r"argument 'p'\['n'\] is 2"):
        fg.grad(lambda p: p["x"] ** p["n"])({"x": 3.0, "n": 2})


@pytest.mark.filterwarnings("ignore:every gradient of")
@pytest.mark.parametrize(
    "g",
    [lambda x: x.astype(int), lambda x: x > 0, lambda x: x.astype(int) * 1.0, np.floor, np.sign, np.round, np.rint],
    ids=["int", "comparison", "int and back", "floor", "sign", "round", "rint"],
)
def test_what_is_constant_in_pieces_has_derivative_zero(g):
    assert plain(fg.gradients_function(g)(2.5)) == [0.0]
    assert plain(fg.jvp(lambda x: g(x) * 1.0, (2.5,), (1.0,))[1]) == 0.0


def test_an_unused_parameter():
    assert plain(fg.gradients_function(lambda x, y: 2 * y)(1.0, 2.0)) == [None, 2.0]


def test_a_function_that_returns_its_argument():
    assert plain(fg.gradients_function(lambda x: x)(3.0)) == [1.0]
    assert plain(fg.grad(lambda x: x)(3.0)) == 1.0


@pytest.mark.parametrize("g", [lambda x: 7.0, lambda x: x.numpy() * 2, lambda x: float(x) * 2, lambda x: x.item()])
@pytest.mark.parametrize("transform", [fg.gradients_function, fg.value_and_gradients_function, fg.make_vjp])
def test_a_plain_number_as_result_is_not_passed_over_in_silence(transform, g):
    with pytest.raises((TypeError, ValueError, UserWarning), match=r"<lambda> returned a|float\(\) requested"):
        transform(g)(3.0)


@pytest.mark.parametrize("g", [lambda x: float(x) * 2, lambda x: x.item(), lambda x: x.numpy(), lambda x: math.sin(x)])
def test_forward_mode_does_not_pass_over_a_value_that_left_the_trace(g):
    with pytest.raises(TypeError, match=r"(<lambda> returned|a traced tensor).*\n.* at test_gradient_functions\.py"):
        fg.jvp(g, (3.0,), (1.0,))


def test_a_constant_tensor_as_result():
    assert fg.gradients_function(lambda x: fg.constant(7.0))(3.0) == [None]
    assert plain(fg.grad(lambda x: fg.constant(7.0))(3.0)) == 0.0


def test_results_are_summed():
    assert plain(fg.gradients_function(lambda x: [x * x, x])(3.0)) == [7.0]
    assert plain(fg.gradients_function(lambda x: (x * x, [x, x]))(3.0)) == [8.0]
    assert plain(fg.gradients_function(lambda x: {"a": x * x, "b": x})(3.0)) == [7.0]
    assert plain(fg.gradients_function(lambda x: x * x)(np.array([1.0, 2.0]))) == [[2.0, 4.0]]
    assert plain(fg.gradients_function(lambda x: x * np.array([[1.0], [10.0]]))(np.array([1.0, 2.0]))) == [[11.0, 11.0]]


@pytest.mark.parametrize(
    ("g", "x", "dy", "expected"),
    [
        (lambda x: x * x, np.array([1.0, 2.0]), np.array([10.0, 100.0]), [20.0, 400.0]),
        (lambda x: x * x, np.array([1.0, 2.0]), [10.0, 100.0], [20.0, 400.0]),
        (lambda x: x * x, np.array([1.0, 2.0]), fg.constant([10.0, 100.0]), [20.0, 400.0]),
        (lambda x: x * x, np.array([1.0, 2.0]), 2.0, [4.0, 8.0]),
        (lambda x: x * x, np.array([1.0, 2.0]), np.float32(2.0), [4.0, 8.0]),
        (lambda x: x * x, np.array([1.0, 2.0]), 2, [4.0, 8.0]),
        (lambda x: x * x, np.array([1.0, 2.0]), None, [2.0, 4.0]),
        (lambda x: [x * x, x], 3.0, (1.0, 10.0), 16.0),
        (lambda x: [x * x, x], 3.0, [1.0, 10.0], 16.0),
        (lambda x: (x * x, x), 3.0, [10.0, None], 61.0),
        (lambda x: (x * x, x), 3.0, [None, 10.0], 16.0),
        (lambda x: {"b": x * x, "a": x}, 3.0, {"a": 1.0, "b": 10.0}, 61.0),
        (lambda x: {"b": [x * x, x], "a": x}, 3.0, {"a": None, "b": [10.0, 100.0]}, 161.0),
    ],
)
def test_dy(g, x, dy, expected):
    assert plain(fg.gradients_function(g)(x, dy=dy)) == [expected]
    assert plain(fg.value_and_gradients_function(g)(x, dy=dy)[1]) == [expected]
    assert plain(fg.make_vjp(g)(x)[1](dy)) == [expected]
    assert plain(fg.vjp(g, x)[1](dy)) == (expected,)


def test_dy_is_cast_to_the_dtype_of_the_result():
    (gradient,) = fg.gradients_function(lambda x: x * x)(np.float32([1, 2]), dy=np.array([1.0, 10.0]))
    assert plain(gradient) == [2.0, 40.0]
    assert gradient.dtype == np.float32


@pytest.mark.parametrize(
    ("g", "x", "dy", "text"),
    [
        (lambda x: x * x, np.ones(2), np.ones(3), r"\(3,\).*\(2,\)"),
        (lambda x: x * x, np.ones(2), np.ones((1, 2)), r"\(1, 2\).*\(2,\)"),
        (lambda x: x * x, 3.0, np.ones(2), r"\(2,\).*\(\)"),
        (lambda x: [x * x, x], 3.0, [1.0], "1 entries for 2 results"),
        (lambda x: [x * x, x], 3.0, [1.0, 2.0, 3.0], "3 entries for 2 results"),
        (lambda x: {"a": x}, 3.0, {"b": 1.0}, r"\['b'\].*\['a'\]"),
        (lambda x: {"a": x}, 3.0, [1.0], "structure"),
        (lambda x: x * x, 3.0, 1.0 + 2.0j, "complex"),
    ],
)
def test_dy_that_does_not_fit(g, x, dy, text):
    for call in (
        lambda: fg.gradients_function(g)(x, dy=dy),
        lambda: fg.make_vjp(g)(x)[1](dy=dy),
        lambda: fg.vjp(g, x)[1](dy),
    ):
        with pytest.raises(ValueError, match=text):
            call()


def test_dy_may_itself_be_differentiated():
    inner = fg.gradients_function(lambda x: x * x)
    assert plain(fg.grad(lambda dy: inner(3.0, dy=dy)[0])(2.0)) == 6.0
    assert plain(fg.grad(lambda x: inner(x, dy=x)[0])(3.0)) == 12.0  # the inner gradient is 2 x * x


def test_zero_weights_switch_off_infinite_derivatives():
    (gradient,) = fg.gradients_function(np.sqrt)(np.array([0.0, 4.0]), dy=np.array([0.0, 1.0]))
    assert plain(gradient) == [0.0, 0.25]


# Arguments that are left alone


def test_arguments_outside_of_params_are_untouched():
    seen = []

    def g(x, scale, mode, nothing):
        seen.append((scale, mode, nothing))
        return x * x * scale

    assert plain(fg.gradients_function(g, params=["x"])(3.0, 2.0, "fast", None)) == [12.0]
    ((scale, mode, nothing),) = seen
    assert type(scale) is float
    assert (mode, nothing) == ("fast", None)


def test_arguments_that_are_no_numbers():
    def g(x, mode, nothing):
        assert (mode, nothing) == ("fast", None)
        return x * x

    assert plain(fg.gradients_function(g)(3.0, "fast", None)) == [6.0, None, None]


def test_a_variable_as_argument():
    v = fg.Variable(3.0)
    (gradient,) = fg.gradients_function(lambda x: x * x)(v)
    assert gradient.item() == 6.0
    assert fg.grad(lambda x: x * x)(v).item() == 6.0


def test_the_tensor_that_was_passed_in_is_not_changed():
    x = fg.constant([1.0, 2.0])

    def g(x):
        x[0] = 5.0
        return np.sum(x * x)

    assert plain(fg.grad(g)(x)) == [0.0, 4.0]
    assert plain(x) == [1.0, 2.0]
    a = np.array([1.0, 2.0])
    assert plain(fg.grad(g)(a)) == [0.0, 4.0]
    assert a.tolist() == [1.0, 2.0]


# Keywords, defaults and signatures


def test_keyword_arguments():
    def g(x, y=3.0, *, scale=1.0, **options):
        return scale * f(x, y) * options.get("factor", 1.0)

    gradients = fg.gradients_function
    assert plain(gradients(g)(2.0, 3.0, scale=2.0)) == [54.0, -8.0]
    assert plain(gradients(g)(2.0)) == [27.0]
    assert plain(gradients(g)(2.0, y=3.0)) == [27.0]
    assert plain(gradients(g, params=[0])(2.0)) == [27.0]
    assert plain(gradients(g, params=["y"])(2.0)) == [-4.0]
    assert plain(gradients(g, params=["y"])(2.0, y=3.0)) == [-4.0]
    assert plain(gradients(g, params=["y"])(2.0, 3.0)) == [-4.0]
    assert plain(gradients(g, params=[1])(2.0, y=3.0)) == [-4.0]
    assert plain(gradients(g, params=["scale"])(2.0, 3.0, scale=2.0)) == [6.0]
    assert plain(gradients(g, params=["scale"])(2.0, 3.0)) == [6.0]
    assert plain(gradients(g, params=["scale", "x"])(2.0, scale=2.0)) == [6.0, 54.0]
    assert plain(gradients(g, params=["x", "y"])(y=3.0, x=2.0)) == [27.0, -4.0]
    assert plain(gradients(g, params=["factor"])(2.0, factor=5.0)) == [6.0]
    assert plain(fg.grad(g)(x=2.0)) == 27.0
    assert plain(fg.grad(g, argnums="scale")(2.0, scale=2.0)) == 6.0
    assert plain(fg.grad(g, argnums=("y", "x"))(2.0)) == (-4.0, 27.0)


def test_keyword_only_parameters_are_named_when_one_is_unknown():
    def g(x, *, scale):
        return x * scale

    with pytest.raises(ValueError, match="g has no parameter 'depth'; its parameters are x, scale"):
        fg.gradients_function(g, params=["depth"])(2.0, scale=3.0)
    with pytest.raises(ValueError, match="'scale', which was not passed"):
        fg.gradients_function(g, params=["scale"])(2.0)


def test_too_few_arguments():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'y'"):
        fg.gradients_function(f)(2.0)
    with pytest.raises(ValueError, match="'y', which was not passed"):
        fg.gradients_function(f, params=["y"])(2.0)


def test_positional_only_parameters():
    def g(x, y, /):
        return x * y

    assert plain(fg.gradients_function(g, params=["y"])(2.0, 3.0)) == [2.0]


def test_a_function_with_any_number_of_arguments():
    def g(*xs):
        return functools.reduce(lambda a, b: a * b, xs)

    assert plain(fg.gradients_function(g)(2.0, 3.0, 5.0)) == [15.0, 10.0, 6.0]
    assert plain(fg.gradients_function(g, params=[2])(2.0, 3.0, 5.0)) == [6.0]
    with pytest.raises(ValueError, match="position 3 .*3"):
        fg.gradients_function(g, params=[3])(2.0, 3.0, 5.0)


class Model:
    """Methods of every kind."""

    w = 2.0

    def loss(self, x, y):
        return self.w * x * y

    @fg.gradients_function
    def gradients(self, x, y):
        return self.w * x * y

    @fg.gradients_function(params=["y"])
    def gradient_of_y(self, x, y):
        return self.w * x * y

    @fg.grad(argnums=1)
    def second(self, x, y):
        return self.w * x * y

    @fg.value_and_grad
    def both(self, x):
        return self.w * x * x

    @staticmethod
    @fg.grad
    def of_static(x):
        return x * x

    @classmethod
    @fg.grad
    def of_class(cls, x):
        return cls.w * x * x

    def __call__(self, x):
        return self.w * x * x


def test_methods():
    model = Model()
    assert plain(model.gradients(3.0, 5.0)) == [10.0, 6.0]
    assert plain(model.gradient_of_y(3.0, 5.0)) == [6.0]
    assert plain(model.second(3.0, 5.0)) == 6.0
    assert plain(model.both(3.0)) == (18.0, 12.0)
    assert plain(Model.of_static(3.0)) == plain(model.of_static(3.0)) == 6.0
    assert plain(Model.of_class(3.0)) == plain(model.of_class(3.0)) == 12.0
    assert plain(fg.gradients_function(model.loss)(3.0, 5.0)) == [10.0, 6.0]
    assert plain(fg.gradients_function(model.loss, params=["x"])(3.0, 5.0)) == [10.0]
    assert list(inspect.signature(model.gradients).parameters) == ["x", "y"]
    assert model.gradients.__name__ == "gradients"


def test_callable_objects_and_partials():
    assert plain(fg.gradients_function(Model())(3.0)) == [12.0]
    assert plain(fg.grad(Model())(3.0)) == 12.0
    assert plain(fg.gradients_function(functools.partial(f, 2.0))(3.0)) == [-4.0]
    assert plain(fg.gradients_function(functools.partial(f, y=3.0))(2.0)) == [27.0]
    assert plain(fg.gradients_function(functools.partial(f, 2.0), params=["y"])(3.0)) == [-4.0]
    assert plain(fg.grad(np.sin)(0.0)) == 1.0
    assert plain(fg.grad(np.sum)(np.ones(2))) == [1.0, 1.0]


TRANSFORMS = [
    fg.gradients_function,
    fg.value_and_gradients_function,
    fg.implicit_gradients,
    fg.implicit_value_and_gradients,
    fg.make_vjp,
    fg.grad,
    fg.value_and_grad,
]


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda transform: transform.__name__)
def test_name_docstring_and_signature_are_kept(transform):
    def cubic(x: float, y: float = 3.0, *, scale: float = 1.0) -> float:
        """Compute a cubic."""
        return scale * f(x, y)

    for g in (transform(cubic), transform()(cubic)):
        assert g.__name__ == "cubic"
        assert g.__doc__ == "Compute a cubic."
        assert g.__qualname__ == cubic.__qualname__
        assert g.__module__ == __name__
        assert g.__wrapped__ is cubic
        assert inspect.signature(g) == inspect.signature(cubic)
        assert "cubic" in repr(g)
        assert callable(g)


def test_decorators_with_arguments():
    @fg.gradients_function(params=["y"])
    def first(x, y):
        return f(x, y)

    @fg.value_and_gradients_function(params=1)
    def second(x, y):
        return f(x, y)

    @fg.make_vjp(params="x")
    def third(x, y):
        return f(x, y)

    @fg.grad(argnums=(1, 0), has_aux=True)
    def fourth(x, y):
        return f(x, y), "aux"

    @fg.value_and_grad(argnums="y")
    def fifth(x, y):
        return f(x, y)

    assert plain(first(2.0, 3.0)) == [-4.0]
    assert plain(second(2.0, 3.0)) == (6.0, [-4.0])
    assert plain(third(2.0, 3.0)[1]()) == [27.0]
    assert plain(fourth(2.0, 3.0)) == ((-4.0, 27.0), "aux")
    assert plain(fifth(2.0, 3.0)) == (6.0, -4.0)


@fg.gradients_function(params=["y"])
def decorated(x, y):
    return f(x, y)


def with_aux(x):
    return x * x, {"x": x}


@pytest.mark.parametrize(
    ("g", "args", "expected"),
    [
        (fg.gradients_function(f), (2.0, 3.0), [27.0, -4.0]),
        (fg.gradients_function(f, params=["y"]), (2.0, 3.0), [-4.0]),
        (fg.value_and_gradients_function(f), (2.0, 3.0), (6.0, [27.0, -4.0])),
        (fg.grad(f, argnums=1), (2.0, 3.0), -4.0),
        (fg.grad(fg.grad(f)), (2.0, 3.0), 36.0),
        (fg.value_and_grad(with_aux, has_aux=True), (3.0,), ((9.0, {"x": 3.0}), 6.0)),
        (fg.grad(functools.partial(f, 2.0)), (3.0,), -4.0),
        (fg.grad(Model()), (3.0,), 12.0),
        (fg.grad(Model().loss), (3.0, 5.0), 10.0),
        (decorated, (2.0, 3.0), [-4.0]),
        (Model().gradients, (3.0, 5.0), [10.0, 6.0]),
    ],
)
def test_pickling(g, args, expected):
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(g, protocol))
        assert plain(again(*args)) == expected
    assert plain(copy.deepcopy(g)(*args)) == expected


# grad, value_and_grad, has_aux


def test_grad_and_value_and_grad():
    assert plain(fg.grad(f)(2.0, 3.0)) == 27.0
    assert plain(fg.grad(f, argnums=1)(2.0, 3.0)) == -4.0
    assert plain(fg.grad(f, argnums=np.int64(1))(2.0, 3.0)) == -4.0  # not a tuple
    assert plain(fg.grad(f, argnums=-1)(2.0, 3.0)) == -4.0
    assert plain(fg.grad(f, argnums=(0, 1))(2.0, 3.0)) == (27.0, -4.0)
    assert plain(fg.grad(f, argnums=[1])(2.0, 3.0)) == (-4.0,)
    assert plain(fg.grad(f, argnums="y")(2.0, 3.0)) == -4.0
    assert plain(fg.value_and_grad(f)(2.0, 3.0)) == (6.0, 27.0)
    assert plain(fg.value_and_grad(f, argnums=(1, 0))(2.0, 3.0)) == (6.0, (-4.0, 27.0))


def test_grad_gives_zeros_for_what_is_unconnected():
    gradient = fg.grad(lambda x, y: np.sum(y))(np.float32([1, 2]), 3.0)
    assert plain(gradient) == [0.0, 0.0]
    assert gradient.dtype == np.float32
    assert plain(fg.grad(lambda p: p["a"] * 2)({"a": 1.0, "b": np.ones(2)})) == {"a": 2.0, "b": [0.0, 0.0]}


def test_has_aux():
    def g(x):
        y = x * x
        return y, {"square": y, "text": "done", "x": [x, 1]}

    gradient, aux = fg.grad(g, has_aux=True)(3.0)
    assert plain(gradient) == 6.0
    assert plain(aux) == {"square": 9.0, "text": "done", "x": [3.0, 1]}
    assert plain(fg.value_and_grad(g, has_aux=True)(3.0)) == ((9.0, plain(aux)), 6.0)
    value, pullback, aux = fg.vjp(g, 3.0, has_aux=True)
    assert (plain(value), plain(pullback(10.0)), aux["text"]) == (9.0, (60.0,), "done")
    value, tangent, aux = fg.jvp(g, (3.0,), (10.0,), has_aux=True)
    assert (plain(value), plain(tangent), plain(aux["square"])) == (9.0, 60.0, 9.0)


def test_aux_of_an_inner_gradient_is_traced_by_the_outer_one():
    def outer(x):
        gradient, aux = fg.grad(lambda y: (y**3, y * y), has_aux=True)(x)
        return gradient + aux  # 3 x^2 + x^2

    assert plain(fg.grad(outer)(2.0)) == 16.0


def test_has_aux_needs_a_pair():
    for transform in (fg.grad, fg.value_and_grad):
        with pytest.raises(TypeError, match="has_aux=True <lambda> must return a pair"):
            transform(lambda x: x * x, has_aux=True)(3.0)


# vjp, jvp, make_vjp


def test_vjp():
    value, pullback = fg.vjp(lambda x, y: x * y, np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    assert plain(value) == [3.0, 8.0]
    for scale in (1.0, 2.0):
        result = pullback(scale * np.array([1.0, 10.0]))
        assert type(result) is tuple
        assert plain(result) == ([3.0 * scale, 40.0 * scale], [scale, 20.0 * scale])
    assert plain(pullback(fg.constant([0.0, 1.0]))) == ([0.0, 4.0], [0.0, 2.0])


def test_vjp_of_containers_and_of_what_is_unconnected():
    value, pullback = fg.vjp(lambda p, q: {"s": p[0] + p[1], "m": 2 * p[0]}, [1.0, 2.0], np.ones(2))
    assert plain(value) == {"s": 3.0, "m": 2.0}
    assert plain(pullback({"s": 1.0, "m": 10.0})) == ([21.0, 1.0], [0.0, 0.0])


def test_a_pullback_can_be_differentiated():
    # The pullback of x^3 at x maps c to 3 x^2 c.
    assert plain(fg.grad(lambda x: fg.vjp(lambda y: y**3, x)[1](1.0)[0])(2.0)) == 12.0
    _, pullback = fg.vjp(lambda y: y**3, 2.0)
    assert plain(fg.grad(lambda c: pullback(c)[0])(1.0)) == 12.0
    assert plain(fg.jvp(lambda c: pullback(c)[0], (5.0,), (1.0,))) == (60.0, 12.0)


def test_jvp():
    x = np.array([1.0, 2.0])
    assert plain(fg.jvp(lambda x: x * x, (x,), (np.array([1.0, 10.0]),))) == ([1.0, 4.0], [2.0, 40.0])
    assert plain(fg.jvp(lambda x, y: x * y, (2.0, 3.0), (1.0, 10.0))) == (6.0, 23.0)
    assert plain(fg.jvp(lambda x, y: x * y, [2.0, 3.0], [1.0, 0.0])) == (6.0, 3.0)
    assert plain(fg.jvp(lambda p: (p["a"] * p["b"], p["a"]), ({"a": 2.0, "b": 3.0},), ({"a": 1.0, "b": 10.0},))) == (
        (6.0, 2.0),
        (23.0, 1.0),
    )
    assert plain(fg.jvp(lambda x: fg.constant(7.0), (2.0,), (1.0,))) == (7.0, 0.0)
    assert plain(fg.jvp(np.sin, (0.0,), (2,))) == (0.0, 2.0)


@pytest.mark.parametrize(
    ("primals", "tangents", "text"),
    [
        ((2.0, 3.0), (1.0,), "must be equal"),
        ((2.0,), ([1.0],), "must be equal"),
        ((np.ones(2),), (np.ones(3),), r"\(3,\).*\(2,\)"),
        ((np.ones(2),), (1.0,), r"shape \(\).*shape \(2,\)"),
        ((2.0,), (1j,), "complex128.*float64"),
        (2.0, 1.0, r"jvp\(f, \(x,\), \(t,\)\)"),
    ],
)
def test_tangents_that_do_not_fit(primals, tangents, text):
    with pytest.raises(ValueError, match=text):
        fg.jvp(lambda *xs: xs[0] * 2, primals, tangents)


def test_jvp_refuses_an_integer():
    with pytest.raises(TypeError, match=r"primals\[0\] is an integer"):
        fg.jvp(lambda x: x * x, (3,), (1.0,))


def test_make_vjp():
    value, vjp = fg.make_vjp(f)(2.0, 3.0)
    assert plain(value) == 6.0
    assert type(vjp()) is list
    assert plain(vjp()) == [27.0, -4.0]
    assert plain(vjp(dy=10.0)) == [270.0, -40.0]
    assert plain(vjp(10.0)) == [270.0, -40.0]
    assert plain(fg.make_vjp(lambda x, y: 2 * y)(1.0, 2.0)[1]()) == [None, 2.0]


def test_make_vjp_that_is_not_persistent():
    value, vjp = fg.make_vjp(f, params=["y"], persistent=False)(2.0, 3.0)
    assert plain(value) == 6.0
    with pytest.raises(ValueError, match=r"dy has shape \(2,\)"):
        vjp(dy=np.ones(2))
    assert plain(vjp(dy=10.0)) == [-40.0]  # the refused call has not used it up
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"f can only be used to compute one set.*\n.*persistent=True"):
            vjp()

    @fg.make_vjp(persistent=False)
    def decorated(x):
        return x * x

    assert plain(decorated(3.0)[1]()) == [6.0]
    assert plain(fg.grad(lambda x: fg.make_vjp(f, persistent=False)(x, 3.0)[1]()[0])(2.0)) == 36.0


def test_the_value_keeps_its_structure():
    value, gradients = fg.value_and_gradients_function(lambda x: {"a": [x * x], "b": x})(3.0)
    assert plain(value) == {"a": [9.0], "b": 3.0}
    assert plain(gradients) == [7.0]
    result = fg.value_and_gradients_function(lambda x: x)(3.0)
    assert type(result) is tuple


# Containers


Point = namedtuple("Point", ["x", "y"])


class Pair:
    def __init__(self, first, second, label):
        self.first, self.second, self.label = first, second, label


fg.register_pytree_node(Pair, lambda p: ((p.first, p.second), p.label), lambda label, children: Pair(*children, label))


def test_containers_as_arguments():
    grad = fg.grad
    assert plain(grad(lambda p: p["w"] * p["b"])({"w": 2.0, "b": 3.0})) == {"w": 3.0, "b": 2.0}
    assert plain(grad(lambda p: p[0] * p[1])([2.0, 3.0])) == [3.0, 2.0]
    assert plain(grad(lambda p: p[0] * p[1])((2.0, 3.0))) == (3.0, 2.0)
    point = grad(lambda p: p.x * p.y)(Point(2.0, 3.0))
    assert type(point) is Point
    assert plain(point) == Point(3.0, 2.0)
    nested = grad(lambda p: p["layers"][1].x * p["layers"][0]["w"][0] + p["c"])(
        {"layers": [{"w": (2.0,)}, Point(3.0, np.ones(2))], "c": 1.0, "none": None}
    )
    assert plain(nested) == {"layers": [{"w": (3.0,)}, Point(2.0, [0.0, 0.0])], "c": 1.0, "none": None}
    assert plain(fg.gradients_function(lambda p, q: p[0] * p[1] * q["a"])([2.0, 3.0], {"a": 5.0})) == [
        [15.0, 10.0],
        {"a": 6.0},
    ]


def test_the_order_of_keys_is_kept():
    gradient = fg.grad(lambda p: p["z"] * p["a"])({"z": 2.0, "a": 3.0})
    assert list(gradient) == ["z", "a"]
    assert plain(gradient) == {"z": 3.0, "a": 2.0}
    ordered = fg.grad(lambda p: p["z"] * p["a"])(OrderedDict(z=2.0, a=3.0))
    assert type(ordered) is OrderedDict
    assert list(ordered) == ["z", "a"]


def test_a_registered_class():
    gradient = fg.grad(lambda p: p.first * p.second)(Pair(2.0, 3.0, "label"))
    assert type(gradient) is Pair
    assert (gradient.first.item(), gradient.second.item(), gradient.label) == (3.0, 2.0, "label")
    value, pullback = fg.vjp(lambda p: Pair(p.second, p.first * 2, "out"), Pair(2.0, 3.0, "in"))
    assert (value.first.item(), value.second.item(), value.label) == (3.0, 4.0, "out")
    (ct,) = pullback(Pair(1.0, 10.0, "out"))
    assert (ct.first.item(), ct.second.item()) == (20.0, 1.0)


def test_a_large_container():
    gradients = fg.grad(lambda ps: sum(i * p * p for i, p in enumerate(ps)))([float(i) for i in range(50)])
    assert plain(gradients) == [2.0 * i * i for i in range(50)]


def test_tree_map_and_leaves_of_tensors():
    tree = {"b": [fg.constant(2.0)], "a": fg.constant(1.0)}
    assert plain(fg.tree_map(lambda x, y: x * y, tree, tree)) == {"b": [4.0], "a": 1.0}
    assert plain(fg.tree_leaves(tree)) == [1.0, 2.0]


# Higher orders and nesting


def test_derivatives_of_every_order():
    g = lambda x: np.sin(2.0 * x)  # noqa: E731
    for order in range(1, 6):
        g = fg.grad(g)
        exact = 2.0**order * math.sin(2.0 * 0.3 + order * math.pi / 2)
        assert g(0.3).item() == pytest.approx(exact, rel=1e-12)


def test_second_order_by_gradients_function():
    first = fg.gradients_function(f)
    assert plain(fg.gradients_function(lambda x, y: first(x, y)[0])(2.0, 3.0)) == [36.0, 6.0]
    assert plain(fg.gradients_function(lambda x, y: first(x, y))(2.0, 3.0)) == [42.0, 2.0]  # both rows summed


MODES = {"reverse": fg.grad, "forward": along}


@pytest.mark.parametrize("modes", list(itertools.product(MODES, repeat=3)), ids="-".join)
def test_third_derivative_in_every_combination_of_modes(modes):
    g = lambda x: x**5 + np.exp(2.0 * x)  # noqa: E731
    for mode in modes:
        g = MODES[mode](g)
    assert g(1.5).item() == pytest.approx(60 * 1.5**2 + 8 * math.exp(3.0), rel=1e-12)


def _gradient_descent(loss, y, rate, steps):
    for _ in range(steps):
        y = y - rate * fg.grad(loss)(y)
    return y


CONFUSIONS = {
    # Siskind and Pearlmutter, "Perturbation confusion and referential transparency", IFL 2005: 1, not 2.
    "product of a sum": (lambda D: lambda x: x * D(lambda y: x + y)(1.0), 1.0, 1.0),
    # The same with the variables' roles exchanged, in the inner function: 2 x, not 3 x.
    "inner slope": (lambda D: lambda x: x * D(lambda y: x * y)(2.0), 3.0, 6.0),
    # The inner function does not depend on its argument at all.
    "constant inner": (lambda D: lambda x: x * D(lambda y: x + 0 * y)(1.0), 3.0, 0.0),
    # The inner point is the outer variable, and x stays while y moves: d/dx 3 x * x^2.
    "outer variable as the inner point": (lambda D: lambda x: D(lambda y: x * y**3)(x), 2.0, 36.0),
    # Three levels: the innermost is x y, the middle one 2 x y at y = x, and d/dx 2 x^2 = 4 x.
    "three levels": (lambda D: lambda x: D(lambda y: y * D(lambda z: x * y * z)(y))(x), 2.0, 8.0),
    # Manzyuk et al., "Perturbation confusion in forward automatic differentiation of higher-order
    # functions", J. Funct. Prog. 29 (2019): the derivative of an offset operator, applied twice.
    "offset operator": (
        lambda D: lambda x: D(lambda u: D(lambda v: np.exp(x + u + v))(0.0))(0.0), 1.0, math.e,
    ),
    # Pearlmutter and Siskind, "Lazy multivariate higher-order forward-mode AD", POPL 2007: tag clash
    # between sequential derivatives inside an outer one.
    "siblings": (lambda D: lambda x: D(lambda y: x * y * y)(1.0) * D(lambda y: x * x * y)(1.0), 2.0, 24.0),
}  # fmt: skip


@pytest.mark.parametrize("outer", MODES)
@pytest.mark.parametrize("inner", MODES)
@pytest.mark.parametrize("case", CONFUSIONS)
def test_perturbation_confusion(case, inner, outer):
    program, point, expected = CONFUSIONS[case]
    assert MODES[outer](program(MODES[inner]))(point).item() == pytest.approx(expected, rel=1e-14)


def test_an_offset_operator_that_is_a_closure():
    """A closure made under one trace and called under another sees each where it belongs."""

    def shifted(u):
        return lambda g: lambda x: g(x + u)

    def derivative_operator(g):
        return lambda x: fg.jvp(lambda u: shifted(u)(g)(x), (0.0,), (1.0,))[1]

    twice = derivative_operator(derivative_operator(np.exp))
    assert twice(1.0).item() == pytest.approx(math.e, rel=1e-15)


def test_gradient_through_an_inner_optimization():
    # argmin of (y - x^2)^2 is x^2; a step with rate 1/4 halves the distance to it.
    def best(x):
        return _gradient_descent(lambda y: (y - x * x) ** 2, 0.0, 0.25, steps=3)

    assert best(3.0).item() == 9.0 * (1 - 2.0**-3)
    assert plain(fg.grad(best)(3.0)) == 6.0 * (1 - 2.0**-3)
    assert plain(along(best)(3.0)) == 6.0 * (1 - 2.0**-3)


def test_a_traced_value_that_is_kept_is_a_constant_to_later_gradients():
    kept = []

    def g(x):
        kept.append(x * x)
        return x

    fg.grad(g)(3.0)
    assert kept[0].item() == 9.0
    assert plain(fg.grad(lambda y: y * kept[0])(1.0)) == 9.0
    assert plain(fg.jvp(lambda y: y * kept[0], (1.0,), (1.0,))) == (9.0, 9.0)


def test_jvp_under_gradients_function_and_back():
    def slope(x, y):
        return fg.jvp(f, (x, y), (1.0, 0.0))[1]  # 3 x^2 y - y^2

    assert plain(fg.gradients_function(slope)(2.0, 3.0)) == [36.0, 6.0]

    def gradients(x, y):
        return fg.gradients_function(f)(x, y)

    value, tangent = fg.jvp(gradients, (2.0, 3.0), (1.0, 0.0))
    assert plain(value) == [27.0, -4.0]
    assert plain(tangent) == [36.0, 6.0]


def test_hessian_vector_products_by_every_route():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(4, 4))
    h = a + a.T
    x, v = rng.normal(size=4), rng.normal(size=4)
    g = lambda x: 0.5 * x @ (h @ x)  # noqa: E731
    routes = [
        fg.jvp(fg.grad(g), (x,), (v,))[1],
        fg.grad(lambda x: fg.jvp(g, (x,), (v,))[1])(x),
        fg.grad(lambda x: np.sum(fg.grad(g)(x) * v))(x),
        fg.vjp(fg.grad(g), x)[1](v)[0],
    ]
    for route in routes:
        np.testing.assert_allclose(np.asarray(route), h @ v, rtol=1e-13)


def test_implicit_gradients_inside_gradients_function():
    w = fg.Variable(2.0)
    inner = fg.implicit_gradients(lambda x: w * x * x)
    assert plain(fg.gradients_function(lambda x: inner(x)[0][0])(5.0)) == [10.0]


# stop_gradient


def test_stop_gradient():
    assert plain(fg.grad(lambda x: x * fg.stop_gradient(x))(3.0)) == 3.0
    assert plain(fg.jvp(lambda x: x * fg.stop_gradient(x), (3.0,), (1.0,))) == (9.0, 3.0)
    assert fg.gradients_function(lambda x: fg.stop_gradient(x * x))(3.0) == [None]
    assert plain(fg.grad(fg.grad(lambda x: x * x * fg.stop_gradient(x)))(3.0)) == 6.0
    # A constant to every running gradient, the outer one too: d/dx 2 x_stopped = 0.
    assert plain(fg.grad(lambda x: fg.grad(lambda y: y * y * 0.5)(fg.stop_gradient(x)))(3.0)) == 0.0


def test_stop_gradient_of_other_things():
    tree = fg.stop_gradient({"a": 1.0, "b": [np.ones(2), 3], "c": "text", "d": None})
    assert plain(tree) == {"a": 1.0, "b": [[1.0, 1.0], 3], "c": "text", "d": None}
    assert plain(fg.grad(lambda p: p["a"] * fg.stop_gradient(p)["b"])({"a": 2.0, "b": 3.0})) == {"a": 3.0, "b": 0.0}
    v = fg.Variable(2.0)
    assert plain(fg.stop_gradient(v)) == 2.0
    assert type(fg.stop_gradient(v)) is type(fg.stop_gradient(fg.constant(2.0))) is fg.Tensor
    for each in (np.float64(1.0), np.float32(1.0), 1.0, 1, True, np.ones(2)):  # nothing to be stopped
        assert fg.stop_gradient(each) is each


# Dtypes


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble, np.complex64, np.complex128])
def test_a_gradient_has_the_dtype_and_shape_of_its_argument(dtype):
    for shape in ((), (3,), (2, 0), (2, 3)):
        x = np.full(shape, 0.5, dtype)
        for g in (
            lambda x: np.sum(np.abs(x * 2.0 + 1) ** 2),
            lambda x: np.sum(np.abs(x) * np.float64(2.0)),
            lambda x: np.sum(np.abs(x.astype(np.complex128))),
            lambda x: np.mean(np.abs(np.exp(x))) if x.size else np.sum(np.abs(x)),
        ):
            gradient = fg.grad(g)(x)
            assert (gradient.dtype, gradient.shape) == (dtype, shape)
            (gradient,) = fg.gradients_function(g)(x)
            assert (gradient.dtype, gradient.shape) == (dtype, shape)
        value, tangent = fg.jvp(lambda x: x * 2.0, (x,), (np.ones(shape, dtype),))
        assert value.dtype == tangent.dtype == dtype


def test_float32_stays_float32():
    def loss(w, x):
        return np.mean(np.tanh(x @ w + 1.0) ** 2 / 2)

    w, x = np.ones((3, 2), np.float32), np.ones((4, 3), np.float32)
    value, (gw, gx) = fg.value_and_gradients_function(loss)(w, x)
    assert value.dtype == gw.dtype == gx.dtype == np.float32
    assert fg.grad(lambda x: fg.grad(lambda y: y**3)(x) * 2)(np.float32(2)).dtype == np.float32


def test_python_numbers_become_float64_and_complex128():
    assert fg.grad(lambda x: x * x)(3.0).dtype == np.float64
    assert fg.grad(lambda x: np.abs(x))(3.0 + 4.0j).dtype == np.complex128
    assert plain(fg.grad(lambda x: x * x)(3.0)) == 6.0


# Complex numbers


@pytest.mark.parametrize(
    ("g", "expected"),
    [
        (lambda z: np.abs(z) ** 2, 6.0 + 8.0j),
        (lambda z: z * np.conj(z), 6.0 + 8.0j),
        (lambda z: z * z, 6.0 - 8.0j),
        (lambda z: np.real(z * z), 6.0 - 8.0j),
        (np.conj, 1.0 - 0.0j),
        (np.exp, np.conj(np.exp(3.0 + 4.0j))),
        (np.real, 1.0 + 0.0j),
        (np.imag, 0.0 + 1.0j),
        (np.abs, 0.6 + 0.8j),
        (np.angle, (-4.0 + 3.0j) / 25.0),
    ],
)
def test_the_gradient_of_a_complex_number_is_the_direction_of_steepest_ascent(g, expected):
    z = 3.0 + 4.0j
    (gradient,) = fg.gradients_function(g)(z)
    assert gradient.item() == pytest.approx(expected, rel=1e-14)
    assert fg.grad(lambda z: np.real(g(z)))(z).item() == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("transform", [fg.grad, fg.value_and_grad, lambda f: lambda z: fg.hvp(f)(z, z)])
@pytest.mark.parametrize("z", [3.0, 3.0 + 4.0j])
def test_a_complex_result_has_no_gradient(transform, z):
    with pytest.raises(NonScalarError, match="returned a complex one, which has no gradient"):
        transform(lambda z: (1 + 2j) * z**3)(z)


def test_the_hessian_of_a_complex_result_is_complex():
    assert fg.hessian(lambda x: (1 + 2j) * x**3)(1.0).item() == 6 + 12j


def test_descent_on_a_complex_number_finds_the_minimum():
    z = np.array([1.0 + 5.0j, -3.0j])
    target = np.array([2.0 - 1.0j, 1.0 + 1.0j])
    for _ in range(60):
        z = z - 0.3 * np.asarray(fg.grad(lambda z: np.sum(np.abs(z - target) ** 2))(z))
    np.testing.assert_allclose(z, target, atol=1e-12)


def test_complex_products_with_the_jacobian():
    c = 1.0 + 2.0j
    value, pullback = fg.vjp(lambda z: c * z, 3.0 + 4.0j)
    assert plain(value) == c * (3.0 + 4.0j)
    assert plain(pullback(1.0j)) == (np.conj(c) * 1.0j,)
    assert plain(fg.jvp(lambda z: c * z, (3.0 + 4.0j,), (1.0j,))[1]) == c * 1.0j
    # From real to complex and back: the gradient of a real argument is real.
    value, pullback = fg.vjp(lambda x: c * x, 3.0)
    (ct,) = pullback(1.0j)
    assert ct.dtype == np.float64
    assert ct.item() == 2.0
    assert plain(fg.grad(lambda x: np.abs(c * x) ** 2)(3.0)) == pytest.approx(2 * 5.0 * 3.0)


def test_second_order_of_complex_numbers():
    # The gradient of |z|^4 is 4 |z|^2 z; the gradient of its real part is 4 |z|^2 + 8 x z.
    z = 1.0 + 2.0j
    first = fg.grad(lambda z: np.abs(z) ** 4)
    assert first(z).item() == pytest.approx(20.0 * z, rel=1e-14)
    assert fg.grad(lambda z: np.real(first(z)))(z).item() == pytest.approx(20.0 + 8.0 * z, rel=1e-13)


# Errors leave nothing open


@pytest.mark.parametrize("transform", [fg.grad, fg.gradients_function, fg.value_and_grad, fg.make_vjp])
def test_an_exception_in_the_function(transform):
    seen = []

    def g(x):
        seen.append(x)
        raise KeyError("no such thing")

    for _ in range(3):
        with pytest.raises(KeyError, match="no such thing"):
            transform(g)(3.0)
    assert float(np.asarray(seen[0])) == 3.0  # the trace has ended, so the tensor is a plain value
    assert plain(fg.grad(lambda x: x * x)(3.0)) == 6.0


def test_an_exception_in_an_inner_gradient_leaves_the_outer_one_intact():
    def g(x):
        try:
            fg.grad(lambda y: 1 / 0)(x)
        except ZeroDivisionError:
            pass
        return x * x

    assert plain(fg.grad(g)(3.0)) == 6.0
    assert plain(along(g)(3.0)) == 6.0


def test_python_control_flow():
    def g(x):
        y = x
        while y < 100:
            y = y * x
        return y if y > 200 else -y

    # 3^5 = 243
    assert plain(fg.grad(g)(3.0)) == 5 * 3.0**4
    assert plain(along(g)(3.0)) == 5 * 3.0**4


CONSTANT = {
    "argmax": lambda x: np.argmax(x),
    "integers": lambda x: np.sum(x.astype(int)),
    "floor": lambda x: np.sum(np.floor(x) * 2.0),
    "sign": lambda x: np.sum(np.sign(x) + np.round(x)),
    "comparison": lambda x: np.count_nonzero(x > 1),
    "truth values": lambda x: np.sum(np.where(x > 1, 2.0, 3.0)),
    "fgrad.numpy": lambda x: np.sum(fgrad.numpy.array(x > 1, dtype=float)),
}


@pytest.mark.parametrize("function", CONSTANT.values(), ids=CONSTANT)
def test_a_gradient_that_is_zero_for_every_input_comes_with_a_warning(function):
    x = np.array([0.5, 1.5, 2.5])
    v = fg.Variable(x)
    calls = (
        lambda: fg.grad(function)(x),
        lambda: fg.value_and_grad(function)(x)[1],
        lambda: fg.gradients_function(function)(x)[0],
        lambda: fg.implicit_gradients(lambda: function(v.value()))()[0][0],
        lambda: fg.grad(lambda y: fg.grad(function)(y)[0])(x),  # of the inner one
    )
    for call in calls:
        with pytest.warns(NoGradientWarning, match="is zero: every path .* use fgrad.explain for details") as caught:
            assert call().tolist() == [0.0, 0.0, 0.0]
        assert [each.filename for each in caught] == [__file__]


@pytest.mark.filterwarnings("error")
def test_a_derivative_that_is_zero_comes_without_a_warning():
    x = np.array([0.5, 1.5, 2.5])
    assert fg.hessian(lambda x: np.sum(np.abs(x)))(x).tolist() == [[0.0] * 3] * 3
    assert fg.grad(fg.grad(np.abs))(2.0) == 0
    assert fg.grad(lambda x: fg.jvp(np.abs, (x,), (1.0,))[1])(2.0) == 0
    assert fg.grad(lambda x: np.sum(np.maximum(x, 0.0)))(-x).tolist() == [0.0] * 3
    assert fg.grad(lambda x: np.sum(np.where(x > 9.0, x, 0.0)))(x).tolist() == [0.0] * 3
    assert fg.grad(lambda x: np.sum(fg.stop_gradient(x)))(x).tolist() == [0.0] * 3
    assert fg.grad(lambda x: x if x > 0 else 0.0)(-1.0) == 0
    assert fg.grad(lambda x, y: np.sum(np.floor(x)) + y, argnums=(0, 1))(x, 1.0)[1] == 1


OF_FLOATS = ["grad", "jacfwd", "jacrev", "hessian", "derivatives", "laplacian", "linearize", "jvp"]


class ArrayOfOthers:
    """An array of a library that fgrad does not know."""

    dtype, shape, ndim = np.dtype(float), (2,), 1

    def __array__(self, dtype=None, copy=None):
        return np.ones(2, dtype)


@pytest.mark.parametrize("name", OF_FLOATS)
def test_arrays_of_other_libraries_are_no_constants(name):
    calls = {
        "derivatives": lambda f, x: fg.derivatives(f, 2)(x),
        "jvp": lambda f, x: fg.jvp(f, (x,), (np.ones(2),)),
        "linearize": lambda f, x: fg.linearize(f, x),
    }
    call = calls.get(name, lambda f, x: getattr(fg, name)(f)(x))
    with pytest.raises(NonNumericInputError, match=r"an array of \w+(.|\n)*np.asarray\(x\)"):
        call(lambda x: np.sum(np.sin(x)), ArrayOfOthers())


@pytest.mark.parametrize("x", ["text", np.array(["text"]), {"a": "text"}, range(3)], ids=repr)
@pytest.mark.parametrize("name", OF_FLOATS)
def test_what_holds_no_number_is_no_constant(name, x):
    calls = {
        "derivatives": lambda f, x: fg.derivatives(f, 2)(x),
        "jvp": lambda f, x: fg.jvp(f, (1.0, x), (1.0, x)),
        "linearize": lambda f, x: fg.linearize(f, x),
    }
    call = calls.get(name, lambda f, x: getattr(fg, name)(f)(x))
    with pytest.raises(NonNumericInputError, match="which (is not a number|has no)"):
        call(lambda *args: 1.0, x)


@pytest.mark.parametrize("name", ["gradients_function", "make_vjp", "vjp"])
def test_arguments_of_which_none_holds_numbers_warn(name):
    def f(x, y):
        return 1.0

    with pytest.warns(NoGradientWarning, match="no argument holds floating-point numbers; one is 'text'"):
        getattr(fg, name)(f, "text", None) if name == "vjp" else getattr(fg, name)(f)("text", None)


@pytest.mark.parametrize("x", [ArrayOfOthers(), np.array([1, 2])])
@pytest.mark.parametrize("name", ["gradients_function", "make_vjp", "vjp"])
def test_gradients_that_are_none_for_the_kind_of_an_argument_warn(name, x):
    def f(x):
        return np.sum(np.sin(x))

    with pytest.warns(NoGradientWarning, match=r"is None where the argument 'x'.*np\.asarray\(x, float\)"):
        getattr(fg, name)(f, x) if name == "vjp" else getattr(fg, name)(f)(x)


def test_a_point_of_integers_cannot_be_linearized():
    with pytest.raises(IntegerInputError, match="linearize of sin"):
        fg.linearize(np.sin, np.array([1, 2]))
