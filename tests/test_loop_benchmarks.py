"""The benchmark of long loops: its programs say the same however they loop, and it leaves nothing out silently."""

import dataclasses
import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")  # whose images are learnt
FOLDER = Path(__file__).parents[1] / "benchmarks"
pytestmark = pytest.mark.usefixtures("jax_as_it_was")

sys.path.insert(0, str(FOLDER))  # as Python does for a script that it runs
try:
    kinds = importlib.import_module("kinds")
    loops = importlib.import_module("loops")
    sequences = importlib.import_module("sequences")
finally:
    sys.path.remove(str(FOLDER))

PROGRAMS = sequences.PROGRAMS
TINY = 4


def results(way, name, count=TINY):
    return [np.asarray(each) for each in kinds.leaves(way.candidate(PROGRAMS[name], count)())]


def eager():
    return loops.way_of(loops.EAGER)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_scan_is_the_loop(name):
    scanned = results(loops.Way(kinds.fgrad(), kinds.fgrad().scan), name)
    kinds.compare(scanned, results(eager(), name), 1e-13)
    assert all(np.any(each != 0) and np.all(np.isfinite(each)) for each in scanned)


@pytest.mark.parametrize("way", [loops.COMPILED, loops.COMPILED_SCAN])
@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_programs_are_the_eager_ones(name, way):
    pytest.importorskip("llvmlite")
    kinds.compare(results(loops.way_of(way), name), results(eager(), name), PROGRAMS[name].tolerance)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in ("HMC, value alone", "training by Adam")])
def test_the_gradient_is_that_of_differences(name):
    program = PROGRAMS[name]
    derivative, args = program.written(kinds.fgrad(), kinds.fgrad().scan, TINY), program.data(TINY)
    gradients = [np.asarray(each) for each in kinds.leaves(derivative(*args)[1])]
    rng = np.random.default_rng(1)
    shifts = [1e-6 * rng.normal(size=each.shape) for each in gradients]

    def shifted(sign):
        left = iter(shifts)  # what is differentiated by comes first
        return derivative(*[moved(arg, left, sign) for arg in args])[0]

    def moved(arg, left, sign):
        if isinstance(arg, tuple):
            return tuple(moved(each, left, sign) for each in arg)
        return arg + sign * next(left, 0.0)

    slope = sum(np.vdot(gradient, shift) for gradient, shift in zip(gradients, shifts, strict=True))
    np.testing.assert_allclose((shifted(1.0) - shifted(-1.0)) / 2, slope, rtol=1e-6)


def test_some_samples_are_refused_and_most_are_new():
    (samples,) = results(eager(), "HMC, value alone", 200)
    stayed = np.mean(np.all(samples[1:] == samples[:-1], axis=1))
    assert 0.005 < stayed < 0.3
    assert 0.2 < np.std(samples) < 3.0


def test_the_training_learns():
    *_, losses = results(eager(), "training by Adam", 45)
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])


def test_how_long_a_compilation_will_take():
    assert loops.predicted({10: 1.0, 20: 2.0}, 100) == pytest.approx(10.0)
    assert loops.predicted({10: 1.0, 20: 4.0}, 40) == pytest.approx(16.0)
    assert loops.predicted({10: 1.0, 20: 9.0}, 40) == pytest.approx(36.0)  # no more than the square
    assert loops.predicted({3: 9.0, 10: 1.0, 20: 1.0}, 1000) == 1.0  # the last two count
    assert loops.predicted({10: 1.1, 20: 1.0}, 1000) == 1.0  # a shorter time for more is the clock's


def fake_first_calls(monkeypatch):
    """Let an iteration compile in a second, and return a list of what has been compiled."""
    compiled = []

    def first_call(way, program, count):
        compiled.append(count)
        return float(count), lambda: np.zeros(2)

    monkeypatch.setattr(loops, "first_call", first_call)
    return compiled


def test_what_would_compile_too_long_is_not_begun(monkeypatch):
    compiled = fake_first_calls(monkeypatch)
    compilations = loops.Compilations(PROGRAMS["RK4, 8 states"], patience=60.0)
    way = loops.Way(kinds.CompiledFgrad(), None)
    assert compilations.run("compiled loop", way, 50)[0] == 50.0
    reason = compilations.run("compiled loop", way, 100)
    assert reason == "50 iterations compiled for 50.0 s, so 100 would take 100 s (--patience 60)"
    assert compiled == [*loops.PROBES, 50]
    assert compilations.run("eager loop", eager(), 100)[0] == 100.0  # which compiles nothing


def test_a_wrong_result_is_not_timed():
    program = dataclasses.replace(PROGRAMS["RK4, 8 states"], lengths=(TINY, TINY, TINY))

    def slightly_wrong(step, carry, xs, count):
        carry, outputs = kinds.fgrad().scan(step, carry, xs, count)
        return carry * (1 + 1e-9), outputs

    row = loops.Row()
    ways = {loops.COMPILED_SCAN: loops.Way(kinds.fgrad(), slightly_wrong), loops.EAGER: eager()}
    candidates = loops.prepared(row, ways, loops.Compilations(program, 60.0), program, TINY)
    assert list(candidates) == [loops.EAGER]
    assert row.different == [loops.COMPILED_SCAN]
    assert row.left_out[loops.COMPILED_SCAN].startswith("AssertionError")


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["loops.py", "--rounds", "1", *arguments])
    return loops.main()


WITHOUT_PEERS = ("--leave-out", loops.JITTED, "--leave-out", loops.JITTED_SCAN)


def test_the_table_and_its_figures(capsys, tmp_path, monkeypatch):
    pytest.importorskip("llvmlite")
    short = dataclasses.replace(PROGRAMS["RK4, 8 states"], lengths=(2, 3, 4))
    monkeypatch.setitem(PROGRAMS, "RK4, 8 states", short)
    monkeypatch.setattr(loops, "PROBES", (1, 2))
    monkeypatch.setattr(loops, "COMPILE_ROUNDS", 1)
    figures = tmp_path / "figures.json"
    arguments = ("--only", "rk4", "--lengths", "small,large", "--json", str(figures))
    run(monkeypatch, *arguments, *WITHOUT_PEERS, "--patience", "1000")
    rows, printed = json.loads(figures.read_text()), capsys.readouterr().out.splitlines()
    assert list(rows) == ["RK4, 8 states, 2 iterations", "RK4, 8 states, 4 iterations"]
    for label, row in rows.items():
        assert list(row["seconds"]) == [loops.COMPILED, loops.COMPILED_SCAN, loops.EAGER]
        assert row["left_out"] == dict.fromkeys((loops.JITTED_SCAN, loops.JITTED), "--leave-out says so")
        line = next(line for line in printed if line.startswith(label))
        compiled = min(row["seconds"][loops.COMPILED]) / min(row["seconds"][loops.EAGER])
        assert line.split()[-9:-5] == [f"{compiled:.2f}", "x", f"{row['first'][loops.COMPILED]:.2f}", "s"]


def test_a_gap_has_its_reason(capsys, monkeypatch):
    fake_first_calls(monkeypatch)
    run(monkeypatch, "--only", "rk4", "--lengths", "small", *WITHOUT_PEERS, "--patience", "50")
    printed = capsys.readouterr().out
    for way in (loops.JITTED_SCAN, loops.JITTED):
        assert f"{way} is left out: --leave-out says so" in printed
    for way in (loops.COMPILED, loops.COMPILED_SCAN):
        assert f"{way} is left out: 6 iterations compiled for 6.0 s, so 100 would take 100 s" in printed


def test_what_is_not_installed_is_said(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: "there" if name == "fgrad" else None)
    ways, missing = loops.found_ways([])
    assert list(ways) == [loops.EAGER]
    assert missing[loops.JITTED_SCAN] == "jax is not installed"
    assert missing[loops.COMPILED] == "llvmlite is not installed"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "tea leaves"], "there are LSTM, 2 layers of 14; RK4"),
        (["--lengths", "huge"], "'huge' is not some of small, medium, large"),
        ([part for way in loops.WAYS for part in ("--leave-out", way)], "names all ways"),
    ],
)
def test_what_cannot_be_measured_is_refused(capsys, monkeypatch, arguments, message):
    with pytest.raises(SystemExit):
        run(monkeypatch, *arguments)
    assert message in capsys.readouterr().err
