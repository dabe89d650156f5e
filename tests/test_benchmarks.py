"""The benchmark of whole programs: what it times is right, and what it prints comes from what it has measured."""

import contextlib
import importlib
import json
import os
import runpy
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import fgrad as fg

pytest.importorskip("scipy")
FOLDER = Path(__file__).parents[1] / "benchmarks"
pytestmark = pytest.mark.usefixtures("jax_as_it_was")


sys.path.insert(0, str(FOLDER))  # as Python does for a script that it runs
try:
    programs = importlib.import_module("programs")
    kinds = importlib.import_module("kinds")
finally:
    sys.path.remove(str(FOLDER))


def test_there_are_seventeen_kinds_under_their_own_names():
    assert len(kinds.KINDS) == 17 == sum(len(module.KINDS) for module in kinds.MODULES)


@pytest.mark.parametrize("name", kinds.KINDS)
def test_the_gradient_is_that_by_hand(name):
    kind = kinds.KINDS[name]
    kind.check(kinds.fgrad(), kind.arguments("small"))


@pytest.mark.parametrize("name", kinds.KINDS)
def test_what_is_written_by_hand_leaves_its_arguments_as_they_are(name):
    kind = kinds.KINDS[name]
    args, untouched = kind.arguments("small"), kind.arguments("small")
    first, second = kind.by_hand(*args), kind.by_hand(*args)
    kinds.compare(list(args), list(untouched), 0.0)
    kinds.compare(first, second, 0.0)


def test_a_wrong_gradient_is_not_timed():
    right = kinds.KINDS["convolution"]

    def slightly_wrong(*args):
        value, (one, other) = right.by_hand(*args)
        return value, (one * (1 + 1e-6), other)

    wrong = kinds.Kind(right.name, right.sizes, right.data, right.derivative, slightly_wrong)
    with pytest.raises(AssertionError):
        programs.checked_candidates(wrong, "small", [kinds.fgrad()])


@pytest.mark.parametrize("expected", [np.zeros((2, 1)), np.zeros(2, np.float32), [np.zeros(2), np.zeros(2)]])
def test_another_shape_dtype_or_number_of_arrays_is_different(expected):
    with pytest.raises((AssertionError, ValueError)):
        kinds.compare(np.zeros(2), expected, 1e-8)


@pytest.mark.parametrize(
    ("compiles", "is_slow", "expected"),
    [(False, False, kinds.SIZES), (False, True, ("small",)), (True, True, ("small", "medium"))],
)
def test_long_loops_are_asked_of_those_that_take_no_minutes(compiles, is_slow, expected):
    library = kinds.Library()
    library.compiles, library.is_slow_by_step = compiles, is_slow
    chain, options = kinds.KINDS["chain of single numbers"], kinds.KINDS["Black-Scholes"]
    assert tuple(size for size in kinds.SIZES if chain.suits(library, size)) == expected
    assert all(options.suits(library, size) for size in kinds.SIZES)


def test_the_table_and_its_figures(capsys, tmp_path, monkeypatch):
    figures = tmp_path / "figures.json"
    monkeypatch.setattr(sys, "argv", ["programs.py", "--only", "logistic", "--rounds", "1", "--json", str(figures)])
    programs.main()
    rows = json.loads(figures.read_text())
    assert list(rows) == [f"logistic regression, {size}" for size in kinds.SIZES]
    seconds = rows["logistic regression, small"]["seconds"]
    printed = capsys.readouterr().out
    assert f"{programs.ratio(seconds, 'fgrad'):8.2f} x{programs.ratio(seconds, 'written'):8.2f} x" in printed
    assert "over written out: fgrad " in printed


@pytest.mark.parametrize("name", ["Gaussian process", "LSTM", "Rosenbrock, Hessian product", "digits, float32"])
def test_what_is_written_out_gives_the_result_by_hand_without_a_tensor(name, monkeypatch):
    kind = kinds.KINDS[name]
    args = kind.arguments("small")
    written = kind.candidate(kinds.written(), args)

    def refuse(*args, **keywords):
        raise AssertionError("the library was asked")

    for namespace in ("fgrad.core.tensor", "fgrad.core.reverse", "fgrad.graphs.equations", "fgrad.ops.families"):
        for asked in {"apply", "box", "boxed"} & vars(importlib.import_module(namespace)).keys():
            monkeypatch.setattr(f"{namespace}.{asked}", refuse)
    with pytest.raises(AssertionError, match="the library was asked"):
        kind.candidate(kinds.fgrad(), args)()
    kinds.compare(written(), kind.by_hand(*args), 1e-4 if name == "digits, float32" else kind.tolerance)


def test_what_is_written_out_computes_anew_for_what_is_in_its_arguments_now():
    kind = kinds.KINDS["convolution"]
    args = kind.arguments("small")
    written = kind.candidate(kinds.written(), args)
    before = written()
    args[0][:] *= 2
    kinds.compare(written(), kind.by_hand(*args), kind.tolerance)
    with pytest.raises(AssertionError):
        kinds.compare(written(), before, kind.tolerance)


def test_a_program_is_written_out_line_by_line():
    module = importlib.import_module("kinds.transcript")
    text, values = module.source(fg.trace(lambda x: np.sum(np.sin(x * x), axis=0) + 0.5)(np.ones((2, 3))))
    assert text == (
        "def derivative(v_a):\n"
        "    v_b = multiply_0(v_a, v_a)\n"
        "    del v_a\n"
        "    v_c = sin_1(v_b)\n"
        "    del v_b\n"
        "    v_d = sum_2(v_c, axis=0, keepdims=False)\n"
        "    del v_c\n"
        "    v_e = add_4(v_d, constant_3)\n"
        "    del v_d\n"
        "    return (v_e, )"
    )
    assert values["sin_1"] is np.sin
    assert values["constant_3"] == 0.5


@pytest.mark.filterwarnings("error")
def test_what_is_written_out_gives_no_warnings_as_passes_do():
    def gradient(x):
        return fg.grad(lambda x: np.sum(np.sqrt(x)))(x)

    written = kinds.written().candidate(gradient, (np.array([0.0, 4.0]),))
    np.testing.assert_array_equal(written()[0], [np.inf, 0.25])


VARIABLE = fg.Variable(2.0, name="w")


@pytest.mark.parametrize(
    ("function", "args", "message"),
    [
        (lambda x: VARIABLE * x, (np.ones(2),), "it reads variables: w"),
        (lambda x: x + 1, (1.0,), "a number of Python's: pass it as one of NumPy's"),
        (lambda x: (x, np.sum(fg.constant([1.0, 2.0]))), (np.ones(2),), "it refers to a tensor"),
        (lambda x: fg.scan(lambda c, _: (c * 2, None), x, None, 3)[0], (np.ones(2),), "decides when it runs"),
    ],
)
def test_what_is_no_calls_of_numpy_alone_is_not_written_out(function, args, message):
    with pytest.raises(ValueError, match=message):
        kinds.written().candidate(function, args)


def test_what_cannot_be_written_out_is_left_out_of_its_row(capsys):
    right = kinds.KINDS["convolution"]

    def asks_for_a_value(library):
        derivative = right.derivative(library)
        return lambda *args: derivative(*args) if float(args[0][0]) < np.inf else None

    kind = kinds.Kind(right.name, right.sizes, right.data, asks_for_a_value, right.by_hand)
    candidates = programs.checked_candidates(kind, "small", [kinds.fgrad(), kinds.written()])
    assert list(candidates) == ["by hand", "fgrad"]
    assert "written is left out: ConcretizationError" in capsys.readouterr().out


def test_the_summary_has_both_yardsticks(capsys):
    def row(hand, ours, written=None, peer=None):
        seconds = {"by hand": [hand], "fgrad": [ours], "written": [written], "peer": [peer]}
        return {
            "seconds": {name: each for name, each in seconds.items() if each[0]},
            "peak": {"by hand": 1, "fgrad": 2},
        }

    figures = {"one": row(1.0, 8.0, 2.0, 4.0), "two": row(1.0, 4.0, 4.0), "neither": row(1.0, 64.0, None, 2.0)}
    programs.report_means(figures, ["fgrad", "written", "peer"])
    lines = capsys.readouterr().out.splitlines()
    assert "    over written out: fgrad 2.00 x (2 rows); peer 2.00 x (1 rows)" in lines
    assert "    written         2.83 x over 2 rows; fgrad over the same rows 5.66 x" in lines
    start = lines.index("furthest behind written out")
    assert [line.split() for line in lines[start + 1 :]] == [["one", "4.00", "x"], ["two", "1.00", "x"]]


def test_what_compiling_takes(capsys, monkeypatch):
    compiled = kinds.compiled()
    monkeypatch.setattr(kinds, "installed_peers", lambda: compiled)
    programs.run_compiling(1, "logistic")
    *found, first, memory = capsys.readouterr().out.splitlines()[1:]
    assert [line.partition("  ")[0] for line in found] == [f"logistic regression, {size}" for size in kinds.SIZES]
    *_, ours, _, theirs, _ = found[0].split()
    assert int(ours) == int(theirs) >= 8 * 11  # the gradient by ten weights and an offset
    assert first.startswith("geometric mean of the first call over compiled's")
    assert memory == "geometric mean of the memory over compiled's    1.00 x"


def test_two_files_are_compared_by_their_ratios_to_by_hand(capsys, tmp_path):
    # The machine was twice as slow the second time, and fgrad had become twice as fast.
    for name, hand, ours in (("before", 1.0, 8.0), ("after", 2.0, 8.0)):
        row = {"seconds": {"by hand": [hand, 9.0], "fgrad": [ours, 9.0]}, "peak": {"by hand": 1, "fgrad": 2}}
        (tmp_path / name).write_text(json.dumps({"a program, small": row}))
    programs.compare_files(tmp_path / "before", tmp_path / "after")
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("a program"))
    assert line.split()[3:] == ["8.00", "x", "4.00", "x", "0.500", "1.000"]


def test_a_checkout_against_itself(capsys):
    programs.run_against(FOLDER.parent, rounds=1, only="logistic")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines[1:4]] == ["logistic regression"] * 3
    assert 0.1 < float(lines[-1].split()[-1]) < 10.0


def test_a_folder_without_fgrad_is_no_checkout(tmp_path):
    with pytest.raises(SystemExit, match="no folder fgrad"):
        programs.run_against(tmp_path, rounds=1, only="logistic")


def test_an_unknown_kind_is_refused_with_the_known_ones(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["programs.py", "--only", "tea leaves"])
    with pytest.raises(SystemExit):
        programs.main()
    assert "attention; digits" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_each_benchmark_says_what_it_takes(name, monkeypatch, capsys):
    """Modules that are no scripts say nothing, and are imported all the same."""
    path = FOLDER / f"{name}.py"
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    monkeypatch.syspath_prepend(FOLDER)
    takes_arguments = "ArgumentParser" in path.read_text()
    with mock.patch.dict(os.environ), pytest.raises(SystemExit) if takes_arguments else contextlib.nullcontext() as end:
        runpy.run_path(str(path), run_name="__main__")
    assert end is None or end.value.code == 0
    assert capsys.readouterr().out.startswith("usage:") == takes_arguments


def test_training_steps_agree(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    with mock.patch.dict(os.environ):
        steps = importlib.import_module("steps")
    steps.check(steps.candidates(3, np.float64, has_jax=False))
