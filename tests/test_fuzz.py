"""The random programs of `make fuzz`: each family runs and finds nothing, and each tells a fault that is planted."""

import contextlib
import itertools
import json
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.special
from fuzz import ROOT, differences, expressions, infinitesimals, mpmath_judge, scipy_calls, stages, transforms
from fuzz import tensorflow_programs as programs
from fuzz.__main__ import FAMILIES, main, run_case
from fuzz.case import REFUSED, RIGHT, UNDECIDED, WRONG, UndecidedError, WrongError
from fuzz.infinitesimals import Number, derivative
from helpers import defined_as

import fgrad as fg
from fgrad.core.primitive import UFUNCS

COUNTS = {"scipy": 6, "transforms": 12, "tensorflow": 30, "threads": 1, "numpy": 10}
"""Cases of each family, which take about half a second."""
MANY = {"transforms": 12, "tensorflow": 40, "numpy": 15}
"""Cases among which a fault in a common function must be told."""


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_runs_and_finds_nothing_wrong(family):
    kinds = []
    for seed in range(COUNTS[family]):
        outcome = run_case(family, seed)
        assert outcome.kind != WRONG, f"{outcome.problem}\n{outcome.program}"
        kinds.append(outcome.kind)
    assert kinds.count(RIGHT) > 0.75 * len(kinds)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_says_the_whole_case(family):
    assert run_case(family, 7) == run_case(family, 7)


# Faults that are planted


@contextlib.contextmanager
def another_rule(ufunc, rule, **others):
    """Give a ufunc of one argument another reverse rule, and no forward rule but the rule's."""
    primitive = UFUNCS[ufunc]
    changes = {"vjps": (rule,), "jvp": lambda ts, ans, x: rule(ans, x)(ts[0]), "scales": "", **others}
    with defined_as(primitive, **changes):
        yield


def told(family, seeds):
    """Return what is said of the cases that are wrong."""
    outcomes = [run_case(family, seed) for seed in seeds]
    return [outcome for outcome in outcomes if outcome.kind == WRONG]


@pytest.mark.parametrize("family", ["transforms", "tensorflow", "numpy"])
def test_a_wrong_derivative_is_told(family):
    with another_rule(np.sin, lambda ans, x: lambda ct: ct * np.cos(x) * 1.0001):
        wrong = told(family, range(MANY[family]))
    assert len(wrong) > 2
    assert all("sin(" in outcome.program or "l2" in outcome.program for outcome in wrong)
    assert not told(family, range(3))


def test_a_wrong_second_derivative_is_told():
    """The rule is right, and cannot be differentiated: what it holds is taken for a constant."""
    rule = lambda ans, x: lambda ct: ct * fg.stop_gradient(np.cos(x))  # noqa: E731
    with another_rule(np.sin, rule):
        wrong = told("transforms", range(MANY["transforms"]))
    assert wrong


def test_a_wrong_derivative_of_a_special_function_is_told():
    with another_rule(scipy.special.erf, lambda ans, x: lambda ct: ct * 1.128379 * np.exp(-x * x)):
        outcomes = [mpmath_judge.run(seed) for seed in range(300) if mpmath_judge.chosen(seed)[0] == "erf"]
    assert len(outcomes) > 2
    assert {outcome.kind for outcome in outcomes} == {WRONG}


def test_a_wrong_derivative_in_one_mode_is_told():
    """Of a call of a table, by the differences of the plain function."""
    seed = next(seed for seed in range(3000) if name_of_call(seed) == ["scipy.special.psi", "scipy.special.digamma"][0])
    assert run_case("scipy", seed).kind == RIGHT
    with another_rule(scipy.special.psi, lambda ans, x: lambda ct: ct * 1.01 * fg.scipy.special.polygamma(1, x)):
        outcome = run_case("scipy", seed)
    assert outcome.kind == WRONG
    assert "differences say" in outcome.problem


def name_of_call(seed):
    rng = np.random.default_rng(seed)
    return "" if rng.random() < 0.25 else scipy_calls.drawn(rng, seed).name


def test_a_rule_that_threads_share_is_told():
    running = []

    def shared(ans, x):
        def pull(ct):
            running.append(ct)
            time.sleep(0)  # lets another thread go on
            alone = len(running) == 1
            running.pop()
            return ct * np.cos(x) * (1.0 if alone else 1.5)

        return pull

    seeds = list(itertools.islice((s for s in range(20) if "np.sin(x" in run_case("threads", s).program), 2))
    assert not told("threads", seeds)
    with another_rule(np.sin, shared):
        wrong = told("threads", seeds)
    assert wrong
    assert "in " in wrong[0].problem
    assert "alone" in wrong[0].problem


# The judges


def test_differences_find_slope_and_error():
    for f, expected in ((np.sin, 1.0), (lambda h: np.exp(3 * h), 3.0), (lambda h: 1 / (0.08 + h), -1 / 0.08**2)):
        slope, error = differences.derivative(f)
        assert abs(slope - expected) <= max(error, 1e-13 * abs(expected))
        assert error < 1e-7 * abs(expected)


def test_differences_of_a_noisy_function_say_so():
    noise = np.random.default_rng(0)
    with pytest.raises(UndecidedError, match="do not converge"):
        differences.derivative(lambda h: np.sin(h) + 1e-4 * noise.normal())
    with pytest.raises(UndecidedError, match="not finite"):
        differences.derivative(lambda h: np.nan)
    with pytest.raises(WrongError, match="the slope is 1.001; differences say"):
        differences.compare("the slope", 1.001, np.sin)


def test_ties_are_told_where_derivatives_depend_on_them():
    x = Number({0: 1.5, 1: 1.0})
    for tied in (1.5, Number({0: 1.5, 1: -1.0}), Number({0: 1.5, 2: 1.0})):
        with pytest.raises(ValueError, match="a tie"):
            x > tied  # noqa: B015
    assert not x > x
    assert not x < x
    assert x > 1.0


def test_infinitesimals_nest():
    """The example on which numbers with one infinitesimal for all derivatives are wrong."""
    (x,) = point = [Number({0: 2.0})]
    inner = lambda y: derivative(lambda z: y[0] * z[0], y, [1.0])  # noqa: E731
    assert derivative(lambda y: y[0] * inner(y), point, [1.0]).real == 4.0
    assert derivative(lambda y: derivative(lambda z: x * y[0] + z[0], y, [1.0]), point, [1.0]).real == 0.0


def test_the_judge_of_each_operation_is_numpys_value():
    names = {}
    exec(expressions.PREAMBLE, names)
    values = {"v": np.array([0.3, -0.8, 0.55]), "s": np.float64(0.4)}
    others = {"v": np.array([0.7, 0.2, -0.45]), "s": np.float64(-0.9)}
    for operation in expressions.VECTORS + expressions.NUMBERS:
        args = [(values if place % 2 == 0 else others)[kind] for place, kind in enumerate(operation.arguments)]
        text = operation.source.format(*(f"a{place}" for place in range(len(args))))
        expected = eval(text, {**names, **{f"a{place}": arg for place, arg in enumerate(args)}})
        numbers = [
            list(map(infinitesimals.number, arg)) if np.ndim(arg) else infinitesimals.number(arg) for arg in args
        ]
        found = operation.judge(*numbers)
        found = [x.real for x in found] if isinstance(found, list) else found.real
        np.testing.assert_allclose(found, expected, rtol=1e-14, err_msg=operation.source)


def test_programs_say_everything():
    text = "".join(transforms.drawn(np.random.default_rng(seed)).text for seed in range(600))
    for stage in stages.STAGES:
        line = max(stage.source.splitlines(), key=len).partition("{")[0].strip()
        assert line in text, stage.source


# TensorFlow's answers


def test_the_record_is_of_the_programs_that_are_generated():
    record = programs.recorded()
    assert record["version"].startswith("2.")
    assert len(record["programs"]) >= 500
    for seed, (kept, _) in record["programs"].items():
        assert programs.digest(programs.program(int(seed))[1]) == kept


def test_an_answer_that_is_not_tensorflows_is_told(monkeypatch):
    seed, (kept, answers) = next(
        (seed, found) for seed, found in programs.recorded()["programs"].items() if isinstance(found[1], list)
    )
    for changed in (answers[:-1], [*answers[:-1], None], "ValueError"):
        record = {"version": "", "programs": {seed: [kept, changed]}}
        monkeypatch.setattr(programs, "recorded", lambda record=record: record)
        assert run_case("tensorflow", 0).kind == WRONG
    record["programs"][seed][0] = "another"
    assert "not the program that was recorded" in run_case("tensorflow", 0).problem
    assert json.dumps(answers)


# The command


def test_the_command_prints_counts(capsys):
    assert main(["--family", "numpy,transforms", "--count", "3", "--seed", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "seed 5"
    assert lines[1].split() == ["family", "cases", RIGHT, REFUSED, UNDECIDED, WRONG, *["seeds", "that", "are", "wrong"]]
    assert lines[2].split() == ["numpy", "3", "3", "0", "0", "0", "-"]


def test_the_command_fails_and_says_how_to_see_it_again(capsys):
    with another_rule(np.sin, lambda ans, x: lambda ct: ct * np.cos(x) * 1.01):
        assert main(["--family", "numpy", "--count", "20", "--seed", "40"]) == 1
        printed = capsys.readouterr().out
        seed = printed.split("SEED=")[1].split()[0]
        assert f"make fuzz FAMILY=numpy SEED={seed} COUNT=1" in printed
        assert main(["--family", "numpy", "--count", "1", "--seed", seed]) == 1
    assert "def f(x):" in capsys.readouterr().out


def test_the_command_refuses_an_unknown_family(capsys):
    with pytest.raises(SystemExit):
        main(["--family", "numbers"])
    assert "no family 'numbers'; there are scipy, transforms" in capsys.readouterr().err


def test_make_runs_the_command():
    """As its recipe does, for a second."""
    command = [sys.executable, "-m", "fuzz", "--seconds", "1", "--family", "numpy", "--seed", "1"]
    done = subprocess.run(command, cwd=ROOT / "tools", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PYTHONPATH=tools" in (ROOT / "Makefile").read_text()
