"""`debug_nans`: the first value that is not finite raises, with its line; and without it nothing is different."""

import subprocess
import sys
import threading
import warnings

import coverage_table
import numpy as np
import pytest
from helpers import naming, plain
from test_kinks import TABLE as KINKS

import fgrad as fg
from fgrad import errors
from fgrad.core.trace import observing
from fgrad.core.tree import flatten
from fgrad.extend import defjvp, defvjp, register_primitive

LINE = r"\n  at test_debug_nans\.py:\d+: .*"


def told(program):
    """Return the first line of the error that a program raises inside `debug_nans`, or an empty text."""
    try:
        with fg.debug_nans():
            program()
    except errors.NonFiniteError as error:
        return str(error).split("\n")[0]
    return ""


@fg.custom_gradient
def with_a_bad_rule(x):
    return x * 2.0, lambda dy: dy * np.inf


def by_tape(f):
    def run(x):
        x = fg.constant(x)
        with fg.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x)

    return run


def by_variable(f):
    def run(x):
        w = fg.Variable(x)
        return fg.implicit_gradients(lambda: f(w))()

    return run


def summed(f):
    return lambda x: np.sum(f(x))


REVERSE = {
    "grad": lambda f: fg.grad(summed(f)),
    "gradients_function": lambda f: fg.gradients_function(f),
    "vjp": lambda f: lambda x: fg.vjp(summed(f), x)[1](1.0),
    "tape": by_tape,
    "variables": by_variable,
    "jacobian": lambda f: fg.jacrev(f),
    "grad of checkpoint": lambda f: fg.grad(fg.checkpoint(summed(f))),
    "grad of vmap": lambda f: fg.grad(lambda x: np.sum(fg.vmap(f)(x[None]))),
    "vmap of grad": lambda f: lambda x: fg.vmap(fg.grad(summed(f)))(x[None]),
    "two traces": lambda f: fg.grad(lambda x: np.sum(fg.grad(summed(f))(x))),
}
FORWARD = {
    "jvp": lambda f: lambda x: fg.jvp(f, (x,), (np.ones_like(x),)),
    "vmap of jvp": lambda f: fg.vmap(lambda x: fg.jvp(f, (x,), (1.0,))),
    "jacfwd": lambda f: fg.jacfwd(f),
}
AT_ZERO = np.array([4.0, 0.0])


# What raises


@pytest.mark.parametrize("transform", [*REVERSE.values(), *FORWARD.values()], ids=[*REVERSE, *FORWARD])
def test_a_value(transform):
    with pytest.raises(FloatingPointError, match=rf"^log gave an infinity\.{LINE}np\.log\(x\) \* 2\.0") as caught:
        with fg.debug_nans():
            transform(lambda x: np.log(x) * 2.0)(AT_ZERO)
    assert type(caught.value) is errors.NonFiniteError
    assert "\n  argument 0: " in str(caught.value)


@pytest.mark.parametrize("transform", REVERSE.values(), ids=REVERSE)
def test_a_reverse_rule(transform):
    text = rf"^the reverse rule of sqrt gave an infinity\.{LINE}np\.sqrt\(x\)"
    with pytest.raises(errors.NonFiniteError, match=text):
        with fg.debug_nans():
            transform(lambda x: np.sqrt(x) * 2.0)(AT_ZERO)


@pytest.mark.parametrize("transform", FORWARD.values(), ids=FORWARD)
def test_a_forward_rule(transform):
    text = rf"^the forward rule of sqrt gave an infinity\.{LINE}np\.sqrt\(x\)"
    with pytest.raises(errors.NonFiniteError, match=text):
        with fg.debug_nans():
            transform(lambda x: np.sqrt(x) * 2.0)(AT_ZERO)


def test_what_the_message_says():
    with pytest.raises(errors.NonFiniteError) as caught, fg.debug_nans():
        fg.grad(lambda x: np.sqrt(x - 1.0) * 3.0)(1.0)
    _, at, *rest = str(caught.value).split("\n")
    assert at.endswith("fg.grad(lambda x: np.sqrt(x - 1.0) * 3.0)(1.0)")
    assert rest == [
        "  argument 0: 0.0",
        "  result: 0.0",
        "  cotangent: 3.0",
        "  gave: inf",
        "np.where(good, f(x), other) excludes elements that are not selected from the derivative.",
        "(help: fgrad.errors.NonFiniteError)",
    ]


def test_the_line_is_that_of_the_forward_operation():
    def f(x):
        y = x * 2.0
        z = np.sqrt(y)
        return z * 3.0

    with fg.debug_nans():
        _, pullback = fg.vjp(f, 0.0)
        with pytest.raises(errors.NonFiniteError, match=r"\d+: z = np\.sqrt\(y\)\n"):
            pullback(1.0)


@pytest.mark.parametrize("f", [lambda x: np.log(x), lambda x: x / 0.0, lambda x: np.exp(x + 1000.0), lambda x: x**-1.0])
def test_operations_that_nothing_traces(f):
    for x in (fg.constant(0.0), fg.Variable(0.0)):
        with pytest.raises(errors.NonFiniteError, match="gave (an infinity|NaN)"), fg.debug_nans():
            f(x)


def test_single_precision_overflows():
    x = fg.constant(np.float32(1e30))
    text = r"multiply gave an infinity\.\n.*\n  argument 0: 1e\+30"
    with pytest.raises(errors.NonFiniteError, match=text), fg.debug_nans():
        x * x
    with fg.debug_nans():
        assert plain(x.astype(np.float64) * x) == pytest.approx(1e60, rel=1e-6)


def test_complex_numbers():
    with pytest.raises(errors.NonFiniteError, match="the reverse rule of sqrt gave NaN"), fg.debug_nans():
        fg.grad(lambda z: np.real(np.sqrt(z)))(0j)


def test_several_results():
    with pytest.raises(errors.NonFiniteError, match="divmod gave NaN"), fg.debug_nans():
        np.divmod(fg.constant(1.0), 0.0)


def test_a_nan_that_comes_in():
    with pytest.raises(errors.NonFiniteError, match="multiply gave NaN; an argument already held NaN"), fg.debug_nans():
        fg.grad(lambda x: np.sum(x * np.array([1.0, np.nan])))(np.ones(2))
    with pytest.raises(errors.NonFiniteError, match="a cotangent already held NaN"), fg.debug_nans():
        fg.vjp(np.sin, 1.0)[1](np.nan)
    with pytest.raises(errors.NonFiniteError, match="a tangent already held NaN"), fg.debug_nans():
        fg.jvp(np.sin, (1.0,), (np.nan,))


def test_second_derivatives():
    def f(x):
        return x**1.5

    text = rf"the reverse rule of .* gave (NaN|an infinity).{LINE}return x\*\*1\.5"
    with pytest.raises(errors.NonFiniteError, match=text):
        with fg.debug_nans():
            fg.grad(fg.grad(f))(0.0)
    with fg.debug_nans():
        assert plain(fg.grad(f)(0.0)) == 0.0


def test_a_rule_of_the_user():
    text = rf"^the rule of with_a_bad_rule gave an infinity\.{LINE}with_a_bad_rule\("
    for f in (lambda x: with_a_bad_rule(x), lambda x: with_a_bad_rule(x * 2.0) * 3.0):
        with pytest.raises(errors.NonFiniteError, match=text), fg.debug_nans():
            fg.grad(f)(1.0)


def test_an_operation_of_the_user():
    inverse = register_primitive(lambda x: 1 / x, name="test_inverse")
    defvjp(inverse, lambda ans, x: lambda ct: -ct * ans * ans)
    defjvp(inverse, lambda t, ans, x: -t * ans * ans)
    with np.errstate(all="ignore"):
        assert told(lambda: fg.grad(inverse)(0.0)) == "test_inverse gave an infinity."
        assert told(lambda: fg.grad(inverse)(1e-200)) == "the reverse rule of test_inverse gave an infinity."
        assert told(lambda: fg.jvp(inverse, (1e-200,), (1.0,))) == "the forward rule of test_inverse gave an infinity."


def test_a_tape_that_was_open_before():
    x = fg.constant(0.0)
    with fg.GradientTape() as tape:
        tape.watch(x)
        with fg.debug_nans():
            y = np.sqrt(x)
    with pytest.raises(errors.NonFiniteError, match="the reverse rule of sqrt"), fg.debug_nans():
        tape.gradient(y, x)


# What does not raise


def test_what_a_mask_of_infinities_hides():
    keep = np.array([True, False])
    with fg.debug_nans():
        gradient = fg.grad(lambda x: np.sum(np.exp(np.where(keep, x, -np.inf))))(np.zeros(2))
    assert plain(gradient) == [1.0, 0.0]


def test_what_where_hides_from_a_reverse_pass():
    def f(x):
        return np.sum(np.where(x > 0, np.sqrt(x), 0.0))

    with fg.debug_nans():
        assert plain(fg.grad(f)(AT_ZERO)) == [0.25, 0.0]
        assert plain(fg.grad(lambda x: np.sum(fg.grad(f)(x)))(AT_ZERO)) == [-1 / 32, 0.0]


def test_what_the_nan_functions_skip():
    with fg.debug_nans():
        assert plain(fg.grad(np.nansum)(np.array([1.0, np.nan]))) == [1.0, 0.0]


def _smooth():
    """Return the calls of NumPy's functions at finite points, by row."""
    found = []
    for row in coverage_table.rows():
        if row.error or (row.until and not row.present()):
            continue
        calls = [
            call for call in row.calls if call.points and all(map(_floating_and_finite, map(np.asarray, call.points)))
        ]
        if calls:
            found.append(pytest.param(calls, id=row.names[0]))
    return found


def _floating_and_finite(x):
    return x.dtype.kind in "fc" and np.isfinite(x).all()


def _total(f):
    def total(*points):
        leaves = [leaf for leaf in flatten(f(*points))[0] if getattr(leaf, "dtype", np.dtype(int)).kind in "fc"]
        return sum((np.sum(np.real(leaf)) for leaf in leaves), np.zeros(()))

    return total


def _follow(f, points, twice):
    """Check that nothing raises, if the value is finite, but what raises without `debug_nans`, too."""
    total, everything = _total(f), tuple(range(len(points)))

    def slope(*points):
        return sum(np.sum(np.real(g * g)) for g in fg.grad(total, argnums=everything)(*points))

    for derivative in (fg.grad(total, argnums=everything), fg.grad(slope, argnums=everything))[: 1 + twice]:
        try:
            expected = fg.tree_leaves(derivative(*points))
        except (errors.FgradError, AttributeError, TypeError, ValueError) as error:
            with pytest.raises(type(error)), fg.debug_nans():
                derivative(*points)
            return
        with fg.debug_nans():
            for found, each in zip(fg.tree_leaves(derivative(*points)), expected, strict=True):
                # Up to rounding: ct / x is ct * (1 / x) where each rule is watched for what masks leave out.
                np.testing.assert_allclose(found, each, rtol=1e-12, atol=1e-12)
    with fg.debug_nans():
        fg.jvp(total, points, tuple(map(np.ones_like, points)))


@pytest.mark.filterwarnings("ignore:every gradient of")
@pytest.mark.parametrize("calls", _smooth())
def test_functions_of_numpy_are_let_pass(calls):
    followed = 0
    for number, call in enumerate(calls):
        points = [np.asarray(x) for x in call.points]
        with np.errstate(all="ignore"), naming(f"call {number}"):
            value = [np.asarray(leaf) for leaf in flatten(call.function(*points))[0] if hasattr(leaf, "dtype")]
            if all(x.dtype.kind not in "fc" or np.isfinite(x).all() for x in value):
                _follow(call.function, points, twice=followed == 0)
                followed += 1
    assert followed


def _kinks(finite):
    """Return the functions and points of the table of kinks where the gradient is finite, or where it is not."""
    return [pytest.param(*row[1:3], id=row[0]) for row in KINKS if np.isfinite(row[3]).all() == finite]


@pytest.mark.filterwarnings("ignore:every gradient of")
@pytest.mark.parametrize(("f", "at"), _kinks(finite=True))
def test_at_a_kink_with_a_finite_gradient_no_rule_is_blamed(f, at):
    """Though it may be a value that a mask hides afterwards."""
    with np.errstate(all="ignore"):
        assert "rule" not in told(lambda: fg.grad(lambda x: np.sum(f(x)))(np.asarray(at)))


@pytest.mark.parametrize(("f", "at"), _kinks(finite=False))
def test_at_a_kink_without_a_finite_gradient_the_rule_is_blamed(f, at):
    with np.errstate(all="ignore"):
        line = told(lambda: fg.grad(lambda x: np.sum(f(x)))(np.asarray(at)))
    assert line.startswith("the reverse rule of")


# Blocks


def test_it_is_off_outside():
    with fg.debug_nans():
        pass
    with np.errstate(all="ignore"):
        assert plain(fg.grad(np.sqrt)(0.0)) == np.inf
    assert plain(fg.grad(with_a_bad_rule)(1.0)) == np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="divide by zero"):
            np.log(fg.constant(0.0))


def test_blocks_nest():
    with fg.debug_nans():
        with fg.debug_nans():
            pass
        with fg.debug_lines():
            pass
        with pytest.raises(errors.NonFiniteError, match="log gave"):
            np.log(fg.constant(0.0))
    with fg.debug_lines(), np.errstate(all="ignore"):
        assert plain(np.log(fg.constant(0.0))) == -np.inf
        with fg.debug_nans(), pytest.raises(errors.NonFiniteError, match="log gave"):
            np.log(fg.constant(0.0))
        assert plain(np.log(fg.constant(0.0))) == -np.inf
    assert not observing


def test_an_exception_closes_it():
    with pytest.raises(KeyError, match="stop"), fg.debug_nans():
        raise KeyError("stop")
    with np.errstate(all="ignore"):
        assert plain(np.log(fg.constant(0.0))) == -np.inf


def test_as_a_decorator():
    @fg.debug_nans()
    def f(x):
        return np.log(x)

    for _ in range(2):
        with pytest.raises(errors.NonFiniteError, match="log gave"):
            f(fg.constant(0.0))


def test_a_rule_defined_inside_stays():
    twice = register_primitive(lambda x: 2.0 * x, name="test_twice")
    with fg.debug_nans():
        defvjp(twice, lambda ans, x: lambda ct: ct * 2.0)
        late = register_primitive(lambda x: np.log(x), name="test_late")
        defvjp(late, lambda ans, x: lambda ct: ct / x)
        fg.constant(1.0) * 2.0
        with pytest.raises(errors.NonFiniteError, match="test_late gave"):
            late(fg.constant(0.0))
    assert plain(fg.grad(twice)(1.0)) == 2.0
    assert not observing


def test_special_functions_whose_rules_come_with_the_first_call():
    """In a fresh process, for the rules stay once they are there."""
    program = (
        "import numpy as np, scipy.special, fgrad as fg\n"
        "x = fg.constant(0.0)\n"
        "with fg.debug_nans():\n"
        "    scipy.special.gammaln(x)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "NonFiniteError: gammaln gave an infinity" in result.stderr


def test_threads_do_not_see_each_other():
    raised, start = {}, threading.Barrier(4)

    def work(number):
        with np.errstate(all="ignore"):
            start.wait()
            for _ in range(200):
                if number % 2:
                    try:
                        with fg.debug_nans():
                            fg.grad(np.sqrt)(0.0)
                    except errors.NonFiniteError:
                        raised[number] = raised.get(number, 0) + 1
                elif plain(fg.grad(np.sqrt)(0.0)) != np.inf:
                    raised[number] = -1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert raised == {1: 200, 3: 200}
    assert not observing


def test_values_and_gradients_are_the_same_inside():
    def f(x):
        y = np.stack([x, np.sin(x)]) @ np.ones(2)
        return np.where(y > 0, np.log1p(y * y), y) * fg.checkpoint(np.tanh)(x)

    pair = np.array([0.5, 1.5])
    for derivative, at in (
        (fg.grad(f), 0.5), (fg.grad(fg.grad(f)), 0.5), (fg.vmap(fg.grad(f)), pair), (fg.jacobian(f), 0.5),
        (fg.hessian(lambda x: np.sum(np.tanh(x) ** 3)), pair),
    ):  # fmt: skip
        expected = plain(derivative(at))
        with fg.debug_nans():
            assert plain(derivative(at)) == expected
        with fg.debug_lines():
            assert plain(derivative(at)) == expected


def test_explaining_inside():
    with fg.debug_nans():
        explained = fg.explain(lambda x: np.sqrt(x), 0.0)[0]
        assert (explained.status, explained.reasons[0].operation) == ("not finite", "sqrt")
        with pytest.raises(errors.NonFiniteError, match="log gave"):
            np.log(fg.constant(0.0))


@pytest.mark.parametrize("inner", [fg.debug_nans, fg.debug_lines])
def test_blocks_inside_of_blocks_raise_until_the_outer_one_ends(inner):
    with fg.debug_nans():
        with inner(), pytest.raises(errors.NonFiniteError):
            fg.grad(np.sqrt)(0.0)
        with pytest.raises(errors.NonFiniteError):
            fg.grad(np.sqrt)(0.0)
    with fg.debug_lines():
        with fg.debug_nans():
            pass
        assert fg.grad(np.sqrt)(0.0) == np.inf
