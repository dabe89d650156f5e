"""The benchmark of whole programs: what it times is right, and what it prints comes from what it has measured."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

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
    assert f"{programs.ratio(seconds, 'fgrad'):8.2f} x" in capsys.readouterr().out


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
