"""Functions of PyTorch as operations here, and functions of arrays as operations of PyTorch: `make peers-test`."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad, gradcheck, gradgradcheck

import fgrad as fg
from fgrad import errors
from fgrad.interop import from_torch, to_torch
from fgrad.scipy import integrate, optimize
from fgrad.testing import check_grads

# PyTorch's own code for forward mode calls what PyTorch has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")

X, Y = np.array([0.3, 0.9]), np.array([0.5, 3.0])
PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "other-libraries.md"


def in_torch(x, y):
    return torch.sin(x) * y, {"s": torch.sum(x * y * y)}


def in_numpy(x, y):
    return np.sin(x) * y, {"s": np.sum(x * y * y)}


def program(f):
    """Return a function of two vectors to a number, in which `f` stands among other operations."""

    def run(x, y):
        product, rest = f(np.exp(x), y)
        return np.sum(product**2) + rest["s"]

    return run


TRANSFORMS = {
    "grad": fg.grad,
    "by both": lambda f: fg.grad(f, argnums=(0, 1)),
    "hessian": fg.hessian,
    "reverse over reverse": lambda f: fg.jacrev(fg.grad(f, argnums=1)),
    "reverse over forward": lambda f: fg.jacrev(fg.jacfwd(f)),
    "third order": lambda f: fg.jacrev(fg.jacfwd(fg.jacfwd(f))),
    "vmap": lambda f: lambda x, y: fg.vmap(f)(np.stack([x, y]), np.stack([y, y])),
    "vmap of some": lambda f: lambda x, y: fg.vmap(f, in_axes=(1, None))(np.stack([x, y, x], 1), y),
    "vmap of grad": lambda f: lambda x, y: fg.vmap(fg.grad(f, argnums=(0, 1)), in_axes=(0, None))(np.stack([x, y]), y),
    "grad of vmap": lambda f: fg.grad(lambda x, y: np.sum(fg.vmap(f, in_axes=(0, None))(np.stack([x, 2 * x]), y))),
    "checkpoint": lambda f: fg.grad(fg.checkpoint(f)),
    "trace": lambda f: lambda x, y: fg.trace(fg.grad(f))(x, y)(y, x),
    "compile": lambda f: lambda x, y: fg.compile(fg.grad(f))(x, y),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_give_what_they_give_for_the_same_function_in_numpy(name):
    transform = TRANSFORMS[name]
    found, expected = (fg.tree_leaves(transform(program(f))(X, Y)) for f in (from_torch(in_torch), in_numpy))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)


def test_derivatives_agree_with_finite_differences():
    check_grads(program(from_torch(in_torch)), (X, Y), order=3)
    check_grads(from_torch(lambda z: torch.exp(z) * torch.conj(z)), (X + 1j * Y,), order=2)


def test_complex_gradients_are_in_the_users_convention():
    def length(module):
        return lambda z: module.sum(module.abs(z * z * (1 + 2j)) ** 2)

    z = X + 1j * Y
    np.testing.assert_allclose(fg.grad(from_torch(length(torch)))(z), fg.grad(length(np))(z))
    np.testing.assert_array_equal(from_torch(torch.conj)(z), np.conj(z))


def test_tapes_record_it_persistent_ones_their_own_passes_too():
    with fg.GradientTape(persistent=True) as tape:
        x = fg.constant(X)
        tape.watch(x)
        y = from_torch(torch.sin)(x)
        first = tape.gradient(y, x)
    np.testing.assert_allclose(tape.gradient(first, x), -np.sin(X))
    np.testing.assert_allclose(tape.jacobian(y, x), np.diag(np.cos(X)), atol=1e-15)


def test_integers_carry_no_derivative_and_may_be_results():
    f = from_torch(lambda a, i, n: (a[i] * n, i + 1))
    i = np.array([1, 1])
    np.testing.assert_array_equal(fg.jacobian(lambda a: f(a, i, 3)[0])(X), [[0, 3], [0, 3]])
    (_, integers), (tangent, none) = fg.jvp(lambda a: f(a, i, 3), (X,), (np.ones(2),))
    assert [each.tolist() for each in (integers, tangent, none)] == [[2, 2], [3, 3], [0, 0]]
    np.testing.assert_array_equal(fg.vmap(lambda i: f(X, i, 2)[0])(np.array([1, 0])), 2 * X[::-1])


def test_dtypes_are_kept_or_refused():
    for value in (np.float32(2), np.ones(2, np.float16), X, 2.0, X.astype(">f8"), X[::-1], np.ones((2, 3)).T):
        found = from_torch(torch.sin)(value)
        assert found.dtype == np.sin(value).dtype.newbyteorder("=")
        np.testing.assert_allclose(found, np.sin(value), rtol=1e-3)
    assert fg.grad(lambda x: np.sum(from_torch(torch.sin)(x)))(np.ones(2, np.float32)).dtype == np.float32
    assert from_torch(lambda x, c: x * c)(np.ones(2, np.float32), 2.0).dtype == np.float32
    with pytest.raises(errors.DtypeError, match="torch.bfloat16, of which NumPy"):
        from_torch(lambda x: x.bfloat16())(X)
    if np.dtype(np.longdouble) != np.float64:
        with pytest.raises(errors.DtypeError, match="has no tensors of one of the dtypes"):
            from_torch(torch.sin)(np.ones(2, np.longdouble))


# What PyTorch can write into, and what it draws


def double_in_place(x):
    x.mul_(2)
    return (x**2).sum()


def test_functions_may_write_into_their_arguments_and_the_users_arrays_stay():
    x = X.copy()
    f = from_torch(double_in_place)
    assert f(x) == np.sum(4 * X**2)
    np.testing.assert_allclose(fg.grad(f)(x), 8 * X)
    np.testing.assert_allclose(fg.hessian(f)(x), 8 * np.eye(2))
    np.testing.assert_array_equal(x, X)


def test_a_result_that_the_function_keeps_and_changes_later_stays():
    state = torch.zeros(2, dtype=torch.float64)
    f = from_torch(lambda x: state.add_(x.detach()))
    first = f(X)
    f(X)
    np.testing.assert_array_equal(first, X)


@pytest.mark.parametrize("size", [10, 100_000])
def test_an_input_may_be_overwritten_before_the_pass(size):
    x = np.ones(size)
    _, pullback = fg.vjp(from_torch(torch.sin), x)
    x[:] = 3.0
    try:
        (found,) = pullback(np.ones(size))
    except errors.OverwrittenError:
        assert size > 10
    else:
        np.testing.assert_allclose(found, np.cos(1.0))


@pytest.mark.parametrize("draws", ["torch", "numpy"])
def test_derivatives_draw_the_same_random_numbers(draws):
    def noisy(x):
        noise = torch.rand(x.shape) if draws == "torch" else torch.from_numpy(np.random.random(x.shape))
        return (noise.double() * x**2).sum()

    torch.manual_seed(0)
    f, x = from_torch(noisy), np.ones(8)
    values = []
    for _ in range(2):
        value, tangent = fg.jvp(f, (x,), (x,))
        np.testing.assert_allclose(tangent, 2 * value)
        (value, gradient), (_, second) = fg.jvp(fg.value_and_grad(f), (x,), (x,))
        np.testing.assert_allclose(np.sum(gradient), 2 * value)
        np.testing.assert_allclose(second, gradient)
        values.append(float(value))
    assert values[0] != values[1]


# What torch.func does not take


def branching(x):
    return x**2 if x > 0 else -x


def test_vmap_is_a_loop_where_torch_cannot_map():
    f, x = from_torch(branching), np.array([1.0, -2.0])
    with pytest.warns(errors.LoopWarning, match="cannot map branching, which runs in a loop"):
        np.testing.assert_array_equal(fg.vmap(f)(x), [1.0, 2.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.LoopWarning)
        np.testing.assert_array_equal(fg.vmap(fg.grad(f))(x), [2.0, -1.0])
        np.testing.assert_array_equal(fg.grad(lambda x: np.sum(fg.vmap(f)(x)))(x), [2.0, -1.0])
        np.testing.assert_array_equal(fg.vmap(fg.hessian(f))(x), [2.0, 0.0])


class Square(torch.autograd.Function):
    """Without `setup_context`, as code for autograd alone is written."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, ct):
        return 2 * ct * ctx.saved_tensors[0]


def test_first_derivatives_need_autograd_alone_and_higher_ones_say_what_they_need():
    f = from_torch(Square.apply)
    assert fg.grad(f)(3.0) == 6.0
    for run in (lambda: fg.jvp(f, (3.0,), (1.0,)), lambda: fg.grad(fg.grad(f))(3.0)):
        with pytest.raises(RuntimeError, match="must override the setup_context") as caught:
            run()
        assert "ran under torch.func" in caught.value.__notes__[0]


# Modules, solvers, mistakes


def test_parameters_of_modules_are_constants_or_arguments():
    net = torch.nn.Linear(2, 1).double()
    np.testing.assert_allclose(fg.jacobian(from_torch(net))(X), net.weight.detach().numpy())
    assert net.weight.grad is None
    weights = {name: value.detach().numpy() for name, value in net.named_parameters()}
    predict = from_torch(lambda weights, x: torch.func.functional_call(net, weights, (x,)))
    gradients = fg.grad(lambda weights: np.sum(predict(weights, X)))(weights)
    np.testing.assert_array_equal(gradients["weight"], [X])
    np.testing.assert_array_equal(gradients["bias"], [1.0])


def test_solvers_take_it():
    borrowed = from_torch(lambda x, p: x**3 - p + 0.1 * torch.sum(x))

    def root(equation):
        return lambda p: np.sum(optimize.root(lambda x: equation(x, p), np.ones(2)).x)

    def end(motion):
        solve = integrate.solve_ivp
        return lambda p: np.sum(solve(lambda t, y: motion(t, y, p), (0.0, 1.0), np.array([1.0, 0.0])).y[:, -1])

    same = root(lambda x, p: x**3 - p + 0.1 * np.sum(x))
    np.testing.assert_allclose(fg.grad(root(borrowed))(Y), fg.grad(same)(Y), rtol=1e-10)
    np.testing.assert_allclose(fg.hessian(root(borrowed))(Y), fg.hessian(same)(Y), atol=1e-10)
    motion = from_torch(lambda t, y, p: torch.stack([y[1], -p[0] * y[0] - p[1] * y[1]]))
    expected = fg.grad(end(lambda t, y, p: np.stack([y[1], -p[0] * y[0] - p[1] * y[1]])))(Y)
    np.testing.assert_allclose(fg.grad(end(motion))(Y), expected, rtol=1e-10)


def test_results_that_are_no_tensors_or_not_connected_are_refused():
    for result, said in (("text", "'text' of type str"), (None, "None"), (np.ones(2), "of type ndarray")):
        with pytest.raises(errors.OutputError, match=f"must be a function of PyTorch, but it returned .*{said}"):
            from_torch(lambda x, result=result: result)(X)
    with pytest.raises(errors.OutputError, match="of type float"):
        from_torch(lambda x: x.item())(2.0)
    lost = from_torch(lambda x: torch.tensor(x.item() * 2))
    assert lost(2.0) == 4.0
    with pytest.raises(errors.DetachedError, match="does not connect to its arguments"):
        fg.grad(lost)(2.0)
    assert fg.grad(lambda x: lost(fg.stop_gradient(x)) * x)(2.0) == 4.0


def test_traced_values_that_it_closes_over_are_refused():
    with pytest.raises(errors.ClosureError, match="computes with tensors of fgrad"):
        fg.grad(lambda x: from_torch(lambda y: y * x)(2.0))(3.0)
    with pytest.raises(errors.ExportError):
        fg.grad(lambda x: np.sum(from_torch(lambda y: torch.as_tensor(x) * y)(X)))(X)
    with pytest.raises(RuntimeError, match="requires grad"):
        fg.grad(lambda x: from_torch(lambda y: y * x)(x))(3.0)


# The way back


def lent(x, y, n=2):
    return {"a": np.sin(x) * y**n, "order": np.argsort(x)}, np.sum(x * y)


def native(x, y, n=2):
    return {"a": torch.sin(x) * y**n, "order": torch.argsort(x)}, torch.sum(x * y)


def number(f):
    """Return a function of two vectors of PyTorch's to a number, in which `f` stands among other operations."""

    def run(x, y):
        parts, rest = f(x.exp(), y)
        return (parts["a"] ** 2).sum() + rest

    return run


def tensors(*arrays, follow=True):
    return tuple(torch.tensor(array, requires_grad=follow) for array in arrays)


def test_pytorch_checks_its_derivatives():
    f, point = number(to_torch(lent)), tensors(X, Y)
    assert gradcheck(f, point, check_forward_ad=True)
    assert gradgradcheck(f, point)
    assert gradcheck(to_torch(lambda z: np.exp(z) * np.conj(z)), tensors(X + 1j * Y))


FUNCTIONAL = {
    "grad": torch.func.grad,
    "hessian": torch.func.hessian,
    "reverse over reverse": lambda f: torch.func.jacrev(torch.func.jacrev(f)),
    "forward over forward": lambda f: torch.func.jacfwd(torch.func.jacfwd(f)),
    "third order": lambda f: torch.func.jacfwd(torch.func.jacrev(torch.func.jacfwd(f))),
    "vmap": lambda f: lambda x, y: torch.func.vmap(f, in_dims=(1, None))(torch.stack([x, x + 1], 1), y),
    "vmap of grad": lambda f: (
        lambda x, y: torch.func.vmap(torch.func.grad(f), in_dims=(0, None))(torch.stack([x, x + 1]), y)
    ),
}


@pytest.mark.parametrize("name", FUNCTIONAL)
def test_functional_transforms_give_what_they_give_for_the_same_function_in_pytorch(name):
    transform, point = FUNCTIONAL[name], tensors(X, Y, follow=False)
    torch.testing.assert_close(transform(number(to_torch(lent)))(*point), transform(number(native))(*point))


def test_orders_and_forward_over_reverse_by_autograd():
    def third(f):
        x, y = tensors(X, Y)
        found = number(f)(x, y)
        for _ in range(2):
            found = torch.autograd.grad(found, x, create_graph=True)[0].sum()
        return torch.autograd.grad(found, x)[0]

    def over_reverse(f):
        x, y = tensors(X, Y)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, y.detach())
            (gradient,) = torch.autograd.grad(number(f)(dual, y), dual)
            return forward_ad.unpack_dual(gradient).tangent

    torch.testing.assert_close(third(to_torch(lent)), third(native))
    torch.testing.assert_close(over_reverse(to_torch(lent)), over_reverse(native))


def test_what_goes_in_and_comes_out():
    f = to_torch(lent)
    x, y = tensors(X, Y)
    parts, total = f(x, y, n=3)
    torch.testing.assert_close(parts["a"], native(x, y, n=3)[0]["a"])
    assert parts["order"].dtype == torch.int64
    assert not parts["order"].requires_grad
    assert total.requires_grad
    with torch.no_grad():
        assert not f(x, y)[1].requires_grad
    assert to_torch(np.sin)(torch.ones(2)).dtype == torch.float32
    torch.testing.assert_close(to_torch(lambda: np.ones(2))(), torch.ones(2, dtype=torch.float64))


def test_writing_leaves_the_other_side_alone():
    def writes(x):
        x[0] = 5.0
        return x * 2

    (x,) = tensors(X)
    result = to_torch(writes)(x)
    assert result.tolist() == [10.0, 2 * X[1]]
    assert x.tolist() == X.tolist()
    (gradient,) = torch.autograd.grad(result.sum(), x)
    assert gradient.tolist() == [0.0, 2.0]

    y = to_torch(np.exp)(x)
    y.mul_(2)  # of which the pullback knows nothing, and need not
    torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], 2 * x.exp().detach())

    z = x * 1
    y = to_torch(np.sin)(z)
    z.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_graphs_are_used_once_unless_kept():
    (x,) = tensors(X)
    y = to_torch(np.sin)(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    torch.testing.assert_close(x.grad, 2 * torch.cos(x.detach()))
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward()


def test_a_solver_in_a_program_of_pytorch():
    root = to_torch(lambda p: optimize.root(lambda x: x**3 - p, np.ones(2)).x)
    point = tensors(np.array([2.0, 3.0]))
    assert gradcheck(root, point)
    assert gradgradcheck(root, point)


def test_there_and_back():
    both = from_torch(to_torch(lambda x: np.sum(np.sin(x))))
    np.testing.assert_allclose(fg.grad(both)(X), np.cos(X))
    np.testing.assert_allclose(fg.hessian(both)(X), np.diag(-np.sin(X)), atol=1e-15)


def test_what_is_no_array_is_refused():
    (x,) = tensors(X)
    for result, said in (("text", "'text' of type str"), (None, "None")):
        with pytest.raises(errors.OutputError, match=f"must return arrays, but it returned {said}"):
            to_torch(lambda x, result=result: result)(x)
    with pytest.raises(errors.DtypeError, match="bfloat16"):
        to_torch(np.sin)(x.detach().bfloat16())


def test_the_blocks_of_the_page_run():
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(block, names)
    assert names["gradients"].keys() == names["weights"].keys()
    assert names["slopes"].shape == (1, 1)
    np.testing.assert_allclose(names["load"].grad, [1 / 4, 1 / 13])
