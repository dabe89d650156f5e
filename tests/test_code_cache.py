"""Native code that is kept in files."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import scipy.special

import fgrad as fg
from fgrad import errors
from fgrad.native import cache as caches
from fgrad.native import machine
from fgrad.native import program as programs_of_functions
from fgrad.native.machine import Machine

TABLE = np.random.default_rng(0).standard_normal((40, 30))


def loss(w):
    y = w
    for _ in range(60):
        y = np.tanh(y) * 1.01 + 0.01 * w
    determinant = np.linalg.slogdet(TABLE.T @ TABLE + np.diag(w**2))[1]
    return np.sum(np.logaddexp(0, TABLE @ w)) + np.sum(y) + determinant


def files_in(folder):
    return sorted(path.name for path in Path(folder).glob("*.o"))


@pytest.fixture
def compiles_nothing(monkeypatch):
    def start():
        def fails(*args):
            raise AssertionError("LLVM runs")

        monkeypatch.setattr(Machine, "_optimized", fails)

    return start


def test_a_program_is_compiled_once(tmp_path, compiles_nothing):
    w = np.full(30, 0.1)
    wanted = fg.compile(fg.value_and_grad(loss))(w)
    first = fg.compile(fg.value_and_grad(loss), cache=tmp_path)(w)
    assert len(files_in(tmp_path)) == 1
    compiles_nothing()
    again = fg.compile(fg.value_and_grad(loss), cache=str(tmp_path))(w)
    for found in (first, again):
        assert found[0] == wanted[0]
        np.testing.assert_array_equal(found[1], wanted[1])
    with pytest.raises(AssertionError, match="LLVM runs"):
        fg.compile(fg.value_and_grad(loss), cache=tmp_path)(np.full(30, 0.1, np.float32))


PROGRAM = """
import sys
import numpy as np, fgrad as fg
sys.path.insert(0, {tests!r})
import test_code_cache as t
w = np.full(30, 0.1)
value, gradient = fg.compile(fg.value_and_grad(t.loss))(w)
scanned = fg.compile(fg.grad(lambda x: np.sum(fg.scan(lambda c, e: (np.sin(c + e), c), x[0], x)[1])))(w)
print(float(value), float(np.sum(gradient)), float(np.sum(scanned)))
"""


@pytest.mark.slow
def test_other_processes_find_the_same_files(tmp_path):
    told, program = set(), PROGRAM.format(tests=str(Path(__file__).parent))
    for seed in range(3):
        environment = {**os.environ, "FGRAD_CACHE": str(tmp_path), "PYTHONHASHSEED": str(seed)}
        told.add(
            subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True).stdout
        )
        assert len(files_in(tmp_path)) == 2
    assert len(told) == 1


def test_the_variable_says_where(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    users = caches.cache_folder(True)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    inside = str(tmp_path / "x")
    for told, folder in (("1", users), ("0", None), ("", None), (inside, inside), ("x", inside), ("~/x", inside)):
        monkeypatch.setenv("FGRAD_CACHE", told)
        assert caches.cache_folder(None) == folder
        assert caches.cache_folder(False) is caches.cache_folder("") is None
    assert "fgrad" in users


def test_code_that_is_damaged_is_compiled_again(tmp_path):
    def run():
        return fg.compile(lambda x: np.sum(np.sin(x) * 2), cache=tmp_path)(TABLE).item()

    wanted = run()
    (name,) = files_in(tmp_path)
    path = tmp_path / name
    whole = path.read_bytes()
    for damaged in (b"", whole[:40], whole[:-1], whole[:100] + b"x" + whole[101:]):
        path.write_bytes(damaged)
        assert run() == wanted
        assert path.read_bytes() == whole


def test_constants_are_those_of_the_program(tmp_path):
    x = np.ones(30)
    one, other = TABLE[0].copy(), TABLE[1].copy()
    for values in (one, other, one):
        compiled = fg.compile(lambda x, values=values: np.sum(x * values) + values, cache=tmp_path)
        np.testing.assert_allclose(compiled(x), np.sum(values) + values)
    assert len(files_in(tmp_path)) == 2


CYCLES = """
import gc, sys
import numpy as np, fgrad as fg
for _ in range(3):
    sine = fg.compile(lambda x: np.sum(np.sin(x) * 2), cache=sys.argv[1])
    print(sine(np.ones(3)).item())
    sine.itself = sine
    del sine
    gc.collect()
"""


def test_code_that_the_garbage_collector_finds_is_freed(tmp_path):
    run = subprocess.run([sys.executable, "-c", CYCLES, str(tmp_path)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert len(set(run.stdout.split())) == 1


@pytest.mark.parametrize("method", ["unlink", "read_bytes"])
def test_files_that_cannot_be_read_or_removed_are_left(tmp_path, monkeypatch, method):
    def run():
        return fg.compile(lambda x: np.sum(np.sin(x) * 2), cache=tmp_path)(TABLE).item()

    def refuses(*args, **keywords):
        raise PermissionError

    wanted = run()
    (name,) = files_in(tmp_path)
    (tmp_path / name).write_bytes(b"damaged")
    monkeypatch.setattr(Path, method, refuses)
    assert run() == wanted


FULL = """
import resource, sys
import numpy as np, fgrad as fg
sine = fg.compile(lambda x: np.sum(np.sin(x) * 2), cache=sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
print(sine(np.ones(3)).item())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the size of files")
def test_a_full_disk_keeps_nothing(tmp_path):
    told = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], check=True, capture_output=True, text=True)
    np.testing.assert_allclose(float(told.stdout), 6 * np.sin(1.0))
    assert not os.listdir(tmp_path)


def test_code_of_other_versions_and_options_is_another(tmp_path, monkeypatch):
    x = np.ones(4_000_000)
    for options in ({"threads": 1}, {"threads": 2}, {"threads": 3}, {"threads": 1, "precise": True}):
        fg.compile(lambda x: np.tanh(x) * 2, cache=tmp_path, **options)(x)
    assert len(files_in(tmp_path)) == 4
    monkeypatch.setattr(machine, "_passes", lambda: "others")
    fg.compile(lambda x: np.tanh(x) * 2, cache=tmp_path, threads=1)(x)
    assert len(files_in(tmp_path)) == 5


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="access is not said by bits")
def test_a_folder_into_which_others_may_write_is_refused(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    for access in (0o777, 0o770, 0o702):  # for all, for a group, for all but the group
        shared.chmod(access)
        with pytest.raises(errors.ParameterError, match=r"others may write into '.*shared', so the code in it"):
            fg.compile(np.sin, cache=shared)(1.0)
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.ParameterError, match="the cache of compile cannot be made"):
        fg.compile(np.sin, cache=tmp_path / "file")(1.0)
    fg.compile(lambda x: np.sin(x) + 1, cache=tmp_path / "new" / "one")(1.0)
    assert (tmp_path / "new" / "one").stat().st_mode & 0o077 == 0


def test_code_with_addresses_of_this_process_is_not_kept(tmp_path):
    compiled = fg.compile(lambda x: scipy.special.gammaln(x) * 2, cache=tmp_path)
    np.testing.assert_allclose(compiled(np.array([2.5, 4.0])), 2 * scipy.special.gammaln([2.5, 4.0]))
    assert not files_in(tmp_path)


def test_the_folder_stays_small(tmp_path, monkeypatch):
    kept = caches.CodeCache(tmp_path)
    monkeypatch.setattr(caches, "_MOST_BYTES", 1000)
    (tmp_path / "users.o").write_bytes(bytes(2000))
    (tmp_path / "fgrad-new-begun").write_bytes(bytes(300))
    os.utime(tmp_path / "fgrad-new-begun", (0, 0))
    for number in range(5):
        kept.put(str(number), bytes(300))
        os.utime(tmp_path / f"fgrad-{number}.o", (number, number))
        kept.get("0")
    assert sorted(os.listdir(tmp_path)) == ["fgrad-0.o", "fgrad-3.o", "fgrad-4.o", "users.o"]


def test_threads_share_a_cache(tmp_path):
    w, found = np.full(30, 0.1), []
    wanted = fg.compile(loss)(w)

    def run():
        found.append(fg.compile(loss, cache=tmp_path)(w))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [wanted] * 4
    assert len(files_in(tmp_path)) == 1


def test_loops_are_found_again_unless_told():
    w = np.full(30, 0.1)
    found, as_recorded = fg.compile(fg.grad(loss)), fg.compile(fg.grad(loss), reroll=False)
    np.testing.assert_allclose(as_recorded(w), found(w), rtol=1e-12)
    assert len(found.inspect(w).loops) == 2
    assert not as_recorded.inspect(w).loops
    scanned = fg.compile(lambda x: fg.scan(lambda c, e: (np.sin(c + e), c), x[0], x)[1], reroll=False)
    assert len(scanned.inspect(w).loops) == 1


def test_a_long_recording_is_worth_a_warning(monkeypatch):
    def repeated(x):
        for _ in range(400):
            x = np.sin(x) * 1.5
        return x

    monkeypatch.setattr(programs_of_functions, "_LONG_RECORDING", 700)
    told = (
        r"(?s)repeated: 800 operations were recorded in .* s, most of them in 399 iterations of the loop at "
        r"test_code_cache.py:\d+: x = np.sin.*fg.scan and fg.fori_loop record one iteration"
    )
    with pytest.warns(errors.CompileWarning, match=told):
        fg.compile(repeated)(1.0)
    fg.compile(lambda x: fg.fori_loop(0, 400, lambda _, x: np.sin(x) * 1.5, x))(1.0)  # says nothing
    monkeypatch.undo()
    report = fg.compile(repeated).inspect(1.0)
    assert report.operations == 800
    assert "; 800 operations recorded; 1 program" in str(report)


def test_options_of_native_code_are_refused_for_another_engine():
    for options in ({"cache": True}, {"reroll": False}):
        with pytest.raises(errors.ParameterError, match="cache and reroll of compile are for native code"):
            fg.compile(np.sin, backend="jax", **options)
