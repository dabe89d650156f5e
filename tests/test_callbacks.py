"""Functions that loops, solvers and rules call: what is said about one with other parameters, and what is accepted."""

import functools

import numpy as np
import pytest
import scipy.optimize

import fgrad as fg
import fgrad.scipy.integrate as integrate
import fgrad.scipy.optimize as optimize
from fgrad import errors

X = np.array([1.0, 2.0])


def no_parameters():
    return 1.0


def one(a):
    return a


def two(a, b):
    return a


def three(a, b, c):
    return a


def keyword(a, b, *, scale):
    return a


CONSTRAINT = {"type": "eq", "fun": two, "args": ()}

WRONG = {  # the call, what it says of the call of the function, and of the function
    "scan": (lambda: fg.scan(one, 0.0, X), "f of scan is called as f(carry, x)", "one(a) takes fewer arguments"),
    "scan, keyword": (lambda: fg.scan(keyword, 0.0, X), "f(carry, x)", "keyword(a, b, *, scale) also needs scale"),
    "while_loop, cond": (lambda: fg.while_loop(two, one, 0.0), "cond of while_loop is called as cond(value)", "a, b"),
    "while_loop, body": (lambda: fg.while_loop(one, two, (0.0, 1.0)), "body(value)", "two(a, b) also needs b"),
    "fori_loop": (lambda: fg.fori_loop(0, 3, one, 1.0), "body of fori_loop is called as body(i, value)", "takes fewer"),
    "map": (lambda: fg.map(two, X), "f of map is called as f(x)", "two(a, b) also needs b"),
    "cond": (lambda: fg.cond(True, no_parameters, one, 1.0), "true_fun of cond is called as true_fun(operand)", "()"),
    "cond, other": (lambda: fg.cond(True, one, no_parameters, 1.0), "false_fun(operand)", "no_parameters() takes"),
    "cond, no operands": (lambda: fg.cond(True, one, one), "true_fun of cond is called as true_fun()", "also needs a"),
    "switch": (lambda: fg.switch(0, [one, two], 1.0), "branches[1] of switch is called as branches[1](operand)", "b"),
    "switch, two": (lambda: fg.switch(0, [one], 1.0, 2.0), "branches[0](operand0, operand1)", "one(a) takes fewer"),
    "minimize": (lambda: optimize.minimize(two, X), "fun of minimize is called as fun(x)", "two(a, b) also needs b"),
    "minimize, args": (lambda: optimize.minimize(one, X, args=(1.0,)), "fun(x, *args)", "one(a) takes fewer"),
    "constraint": (
        lambda: optimize.minimize(np.sum, X, constraints=CONSTRAINT),
        "fun of constraints[0] is called as fun(x)", "also needs b",
    ),
    "minimize_scalar": (lambda: optimize.minimize_scalar(two), "fun of minimize_scalar is called as fun(x)", "needs b"),
    "differential_evolution": (
        lambda: optimize.differential_evolution(no_parameters, [(0.0, 1.0)]),
        "func of differential_evolution is called as func(x)", "takes fewer",
    ),
    "basinhopping": (lambda: optimize.basinhopping(two, X), "func of basinhopping is called as func(x)", "needs b"),
    "root": (lambda: optimize.root(two, X), "fun of root is called as fun(x)", "two(a, b) also needs b"),
    "fsolve": (lambda: optimize.fsolve(two, X), "func of fsolve is called as func(x)", "two(a, b) also needs b"),
    "brentq": (lambda: optimize.brentq(two, 0.0, 1.0), "f of brentq is called as f(x)", "two(a, b) also needs b"),
    "root_scalar": (lambda: optimize.root_scalar(two, x0=1.0), "f of root_scalar is called as f(x)", "also needs b"),
    "newton": (lambda: optimize.newton(no_parameters, 1.0), "func of newton is called as func(x)", "takes fewer"),
    "fixed_point": (lambda: optimize.fixed_point(two, 1.0), "func of fixed_point is called as func(x)", "also needs b"),
    "least_squares": (lambda: optimize.least_squares(two, X), "fun of least_squares is called as fun(x)", "needs b"),
    "least_squares, keywords": (
        lambda: optimize.least_squares(one, X, kwargs={"scale": 1.0}),
        "fun of least_squares is called as fun(x, **kwargs)", "one(a) cannot be: got an unexpected keyword",
    ),
    "curve_fit": (
        lambda: optimize.curve_fit(two, X, X, p0=[1.0, 1.0]),
        "f of curve_fit, with 2 parameters as in p0, is called as f(xdata, *p)", "two(a, b) takes fewer",
    ),
    "solve_ivp": (lambda: integrate.solve_ivp(one, (0, 1), X), "fun of solve_ivp is called as fun(t, y)", "fewer"),
    "solve_ivp, args": (lambda: integrate.solve_ivp(two, (0, 1), X, args=(1.0,)), "fun(t, y, *args)", "takes fewer"),
    "solve_ivp, event": (
        lambda: integrate.solve_ivp(two, (0, 1), X, events=[two, one]),
        "event of solve_ivp is called as event(t, y)", "one(a) takes fewer",
    ),
    "odeint": (lambda: integrate.odeint(one, X, X), "func of odeint is called as func(y, t)", "one(a) takes fewer"),
    "odeint, tfirst": (lambda: integrate.odeint(three, X, X, tfirst=True), "func(t, y)", "three(a, b, c) also needs c"),
    "solve_bvp": (lambda: integrate.solve_bvp(two, three, X, [X]), "bc of solve_bvp is called as bc(ya, yb)", "b, c"),
    "quad": (lambda: integrate.quad(two, 0.0, 1.0), "func of quad is called as func(x)", "two(a, b) also needs b"),
    "quad_vec": (lambda: integrate.quad_vec(two, 0.0, 1.0), "f of quad_vec is called as f(x)", "also needs b"),
    "fixed_quad": (lambda: integrate.fixed_quad(two, 0.0, 1.0), "func of fixed_quad is called as func(x)", "needs b"),
    "dblquad": (lambda: integrate.dblquad(one, 0, 1, 0, 1), "func of dblquad is called as func(y, x)", "takes fewer"),
    "nquad": (lambda: integrate.nquad(one, [(0, 1)] * 2), "func of nquad is called as func(x0, x1)", "takes fewer"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_function_of_other_parameters_is_named_with_its_call(name):
    program, call, reason = WRONG[name]
    with pytest.raises(errors.NotCallableError) as caught:
        program()
    message = str(caught.value)
    assert call in message
    assert reason in message
    assert "Give it the parameters" in message or "Close over what is missing" in message or "cannot be" in message
    assert "test_callbacks.py" in message


def test_the_instead_line_can_be_run_as_it_is():
    def f(value, i, b):
        return value * b

    with pytest.raises(errors.NotCallableError) as caught:
        fg.fori_loop(0, 2, f, 1.0)
    line = "Close over what is missing, lambda i, value: f(i, value, b), or unpack"
    assert line in str(caught.value)
    with pytest.raises(errors.NotCallableError, match=r"lambda carry, x: f\(carry, x, scale=scale\)"):
        fg.scan(keyword, 0.0, X)
    with pytest.raises(errors.NotCallableError, match=r"lambda: f\(a\), or"):
        fg.cond(True, one, one)


def test_a_lambda_and_an_object_are_shown():
    with pytest.raises(errors.NotCallableError, match=r"called as f\(carry, x\), and \(lambda c\) takes fewer"):
        fg.scan(lambda c: (c, c), 0.0, X)
    with pytest.raises(errors.NotCallableError, match=r"and \(lambda\) takes fewer"):
        fg.map(lambda: 1.0, X)
    with pytest.raises(errors.NotCallableError, match=r"and partial\(b, c\) also needs c"):
        fg.map(functools.partial(three, 1.0), X)


def test_what_takes_the_arguments_is_called():
    class Step:
        def __call__(self, carry, x):
            return carry + x, None

        def method(self, carry, x, factor=1.0):
            return carry + factor * x, None

    @functools.wraps(three)
    def gives_one_more(carry, x):  # its signature says more than it needs
        return carry + x, None

    def anything(*args, **keywords):
        return args[0] + args[1], None

    bound = functools.partial(lambda scale, carry, x: (carry + scale * x, None), 1.0)
    compiled = fg.compile(lambda carry, x: (carry + x, None))
    for step in (Step(), Step().method, gives_one_more, anything, bound, compiled):
        assert float(fg.scan(step, 0.0, X)[0]) == 3.0
    assert fg.map(np.square, X).tolist() == [1.0, 4.0]  # a ufunc
    assert fg.map(max, np.array([[1.0, 2.0]])).tolist() == [2.0]  # without a signature
    assert float(fg.grad(lambda x: fg.cond(x > 0, np.sin, np.cos, x))(0.0)) == 0.0
    assert integrate.quad(lambda x, **options: x, 0.0, 1.0)[0] == 0.5


def test_what_the_user_passes_keeps_pythons_message():
    with pytest.raises(TypeError, match=r"takes 1 positional argument but 2 were given") as caught:
        fg.vmap(one)(X, X)
    assert not isinstance(caught.value, errors.FgradError)
    assert type(caught.value) is TypeError


def nothing(*args):
    args[0] * 1.0


WITHOUT_RESULT = {
    "solve_ivp": lambda: integrate.solve_ivp(nothing, (0.0, 1.0), X),  # in SciPy, steps without end
    "solve_ivp, traced": lambda: fg.grad(lambda y: integrate.solve_ivp(nothing, (0, 1), [y]).y[0, -1])(1.0),
    "odeint": lambda: integrate.odeint(nothing, X, X),
    "quad": lambda: integrate.quad(nothing, 0.0, 1.0),
    "minimize": lambda: optimize.minimize(nothing, X),
    "root": lambda: optimize.root(nothing, X),
    "least_squares": lambda: optimize.least_squares(nothing, X),  # in SciPy, a success without residuals
    "brentq": lambda: optimize.brentq(nothing, 0.0, 1.0),
    "newton": lambda: optimize.newton(nothing, 1.0),
    "minimize_scalar": lambda: optimize.minimize_scalar(nothing),
}


@pytest.mark.parametrize("name", WITHOUT_RESULT)
def test_a_function_without_a_result_is_refused(name):
    with pytest.raises(errors.NoResultError, match="nothing returned None, and the solver needs numbers"):
        WITHOUT_RESULT[name]()


@pytest.mark.parametrize(
    "constraint", [lambda f: {"type": "eq", "fun": f}, lambda f: scipy.optimize.NonlinearConstraint(f, 0.0, 0.0)]
)
def test_a_constraint_that_returns_none_is_named(constraint):
    def forgetful(x):
        x[0] - 1.0

    with pytest.raises(errors.NoResultError, match="forgetful returned None"):
        optimize.minimize(lambda x: x @ x, [1.0, 2.0], method="SLSQP", constraints=constraint(forgetful))
