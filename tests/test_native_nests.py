"""The loops that native programs are made of: which there are, how they lie, and how they are shared out."""

import ctypes
import os
import re
import subprocess
import sys
import threading
import time
from unittest import mock

import numpy as np
import pytest

import fgrad as fg
from fgrad.core.tree import flatten
from fgrad.graphs.record import recorded
from fgrad.native import parallel, pool, row_fusion
from fgrad.native.executable import Executable
from fgrad.native.machine import Machine
from fgrad.native.nests import Rows
from fgrad.native.options import Options
from fgrad.native.plan import make_plan
from fgrad.scipy.special import logsumexp

RNG = np.random.default_rng(0)


def executable(function, *args, threads=1):
    return Executable(recorded(function, args, {})[0], Options(threads=threads))


def spaces(function, *args):
    """Return the spaces of the nests of a program, in order."""
    program = executable(function, *args)
    items = make_plan(program.program.all, program._results).items
    return [nest.writes[0].space for item in items if isinstance(item, Rows) for nest in item.nests]


def check(function, *args, rtol=1e-12, threads=1):
    found = executable(function, *args, threads=threads).run([np.asarray(x) for x in args])
    for ours, theirs in zip(found, flatten(function(*args))[0], strict=True):
        theirs = np.asarray(theirs)
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol)
    return found


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


# Which there are


def test_operations_element_by_element_and_their_sums_are_one_nest():
    def f(x, y):
        z = np.sin(x) * y
        return z + 1.0, np.sum(z), np.sum(z * z), np.max(y)

    assert spaces(f, np.ones(50), np.ones(50)) == [(50,)]
    check(f, RNG.normal(size=50), RNG.normal(size=50))


def test_slices_and_their_transposes_are_no_arrays():
    assert len(spaces(fg.grad(rosenbrock), np.ones(50))) == 1
    check(fg.grad(rosenbrock), RNG.normal(size=50))


def test_what_is_dear_is_computed_once():
    def f(x):
        powers = np.exp(x)
        return powers[1:] * powers[:-1], np.sum(powers), powers[::2]

    functions = executable(f, np.ones(50)).llvm.split("define")[1:]
    assert len([each for each in functions if "exp(" in each]) == 1
    check(f, RNG.normal(size=50))


def test_what_a_large_space_needs_of_a_small_array_is_computed_once():
    def f(rates, x):
        return np.exp(rates)[:, None] * x

    assert spaces(f, np.ones(5), np.ones((5, 40))) == [(5,), (5, 40)]
    check(f, RNG.normal(size=5), RNG.normal(size=(5, 40)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arithmetic_is_numpys_to_the_last_bit(dtype):
    def f(x, y):
        return x * y - y * x, x * x + y * y - 3 * x * y, (x - y) / (x * y + 1), np.sqrt(x * x + y), 1 / x - y * y / x

    x, y = RNG.uniform(0.5, 2.0, size=(2, 1003)).astype(dtype)
    for found, wanted in zip(executable(f, x, y).run([x, y]), f(x, y), strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert not np.any(fg.compile(np.cross)(np.stack([x] * 3, -1) * y[:, None], np.stack([x] * 3, -1) * y[:, None]))


# How they lie


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[1:] - x[:-1],
        lambda x: x[::-1] + x,
        lambda x: x[::3],
        lambda x: np.pad(x, 2)[1:-1],
        lambda x: np.concatenate([x[4:], x[:4]]) * np.roll(x, 2),
        fg.grad(lambda x: np.sum(x[2::3] ** 2) + np.sum(x[::-2] ** 3)),
        fg.hessian(rosenbrock),
        lambda x: np.cumsum(x[::-1])[1:],
    ],
)
def test_parts_of_arrays(function):
    for size in (4, 5, 17):
        check(function, RNG.normal(size=size))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x.T, x.T @ np.ones(7), np.sum(x, axis=0), np.max(x.T, axis=0)),
        lambda x: (np.sum(x * 2.0), np.mean(x, axis=1, keepdims=True) + x),
        lambda x: fg.grad(lambda x: np.sum(np.tanh(x) * x.T.reshape(9, 7).T.reshape(7, 9)))(x),
        lambda x: (x[:, 1:] - x[:, :-1], np.sum(x[1:], axis=0), np.prod(x[:, :3], axis=1)),
        lambda x: fg.grad(lambda x: np.sum((x[1:, 1:] - x[:-1, :-1]) ** 2))(x),
        lambda x: np.stack([x, x + 1.0], axis=1)[:, 0].T * 2.0,
    ],
)
def test_matrices(function):
    check(function, RNG.normal(size=(7, 9)))


def test_arrays_without_elements():
    check(lambda x: (np.sum(x), np.sum(x, axis=0), np.prod(x, axis=1), x + 1.0, x.T, np.any(x > 0)), np.ones((0, 3)))


def test_sums_of_short_numbers_lose_no_digits():
    x = RNG.random(2_000_000).astype(np.float32)
    (found,) = executable(np.sum, x).run([x])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.sum(x.astype(np.float64)), rtol=1e-6)


def probabilities(x):
    return np.exp(x - np.max(x, axis=-1, keepdims=True)) / np.sum(np.exp(x - x[..., :1]), axis=-1, keepdims=True)


TOTALS = {
    "neighbours": lambda x: np.sum(np.exp(-x[..., 1:] * x[..., :-1])),
    "times a column": lambda x: np.sum(x * x[..., :1]),
    "in parts of the space": lambda x: np.sum(np.concatenate([x * x[..., :1], x[..., 1:] * x[..., :-1]], axis=-1)),
    "two": lambda x: np.sum(x * x[..., :1]) * np.mean(np.square(x - x[..., :1])),
    "rows that are shared": lambda x: np.mean(probabilities(x) * x[..., ::-1]),
    "of each of the first": lambda x: np.sum(x * x[..., :1], axis=(1, 2)),
    "of what moves": fg.grad(lambda s, x: np.sum(np.square(x - s * x[..., :1]))),
}


@pytest.mark.parametrize("parts", [10**9, 1])
@pytest.mark.parametrize("name", TOTALS)
def test_sums_of_rows_of_short_numbers_lose_no_digits(name, parts, monkeypatch):
    monkeypatch.setattr(parallel, "_WORTH_CHUNKS", parts)
    x = (3 * RNG.random((4, 5000, 9))).astype(np.float32)
    args = [np.float32(0.5), x] if name == "of what moves" else [x]
    exact = TOTALS[name](*[each.astype(np.float64) for each in args])
    found = [executable(TOTALS[name], *args, threads=threads).run(list(map(np.asarray, args))) for threads in (1, 2)]
    assert found[0][0].dtype == np.float32
    assert found[0][0].tobytes() == found[1][0].tobytes()
    # NumPy's own order is as exact where it adds up in pairs, and is off by up to 3e-6 where it adds row to row.
    np.testing.assert_allclose(found[0][0], exact, rtol=3e-7)
    text = executable(TOTALS[name], *[each.astype(np.float64) for each in args]).llvm
    assert "alloca double" not in text  # long numbers need no longer ones


def test_sums_of_short_numbers_begin_anew_where_others_are_kept():
    def f(x):
        return (
            np.sum(x[..., 1:] * x[..., :-1], axis=(0, 2)),
            np.sum(x * x[..., :1], axis=(1, 3)),
            np.sum(x[:, 1:] * x[:, :-1]),
        )

    x = RNG.random((3, 4, 5, 6)).astype(np.float32)
    check(f, x, rtol=1e-6)
    check(fg.grad(lambda x: sum(np.sum(y**2) for y in f(x))), x, rtol=2e-6)


def test_functions_that_differ_in_places_alone_are_one():
    def f(x):
        for i in range(30):
            x = 0.5 * x + 0.1 * np.sin(x[i % 5]) * np.sum(x)
        return x

    text = executable(f, np.ones(5)).stages[0].segment.finished(set())
    assert text.count("define internal") < 20
    check(f, RNG.normal(size=5))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8])
@pytest.mark.parametrize("size", [7, 8, 9, 31, 33, 63, 64, 65, 127, 128, 129, 255, 257, 600])
def test_reductions_of_rows_of_any_length(size, dtype):
    def f(x):
        parts = np.sum(x, axis=1), np.max(x, axis=1), np.min(x), np.all(x > 0), np.sum(x * x)
        return *parts, np.prod(x[:, -9:], axis=1)

    x = RNG.integers(1, 9, (3, size)).astype(dtype)
    found = check(f, x, rtol=0)
    if x.dtype.kind == "f":
        x[1, size // 2] = np.nan
        found = executable(f, x).run([x])
        assert np.isnan(found[1]).tolist() == [False, True, False]
        assert np.isnan(found[2])


def test_vectors_on_the_stack_lie_in_one_line_of_the_cache():
    for features, wanted in (("+avx2,+avx512f", "alignstack=64 "), ("+avx2", "alignstack=32 "), ("+sse2", "")):
        attributes = Machine("x86_64-unknown-linux-gnu", features=features).attributes().partition("\n")[0]
        assert f'nounwind {wanted}"' in attributes


# How they are shared out


@pytest.fixture
def all_are_worth_parts(monkeypatch):
    monkeypatch.setattr(parallel, "_WORTH_CHUNKS", 1)


@pytest.mark.parametrize("threads", [1, 2, 3, 20])
@pytest.mark.usefixtures("all_are_worth_parts")
def test_parts_of_a_loop(threads):
    def f(x):
        return (
            np.exp(x), np.sum(np.exp(x)), np.sum(x, axis=0), np.max(x, axis=1), np.prod(x, axis=0), np.all(x > -9.0),
            np.any(x > 2.0, axis=0), x[1:] - x[:-1], np.cumsum(x, axis=1), np.argmax(x, axis=0), x.T,
        )  # fmt: skip

    x = RNG.normal(size=(37, 11))
    found = check(f, x, threads=threads)
    again = executable(f, x).run([x])
    assert all(ours.tobytes() == same.tobytes() for ours, same in zip(found, again, strict=True))


@pytest.mark.usefixtures("all_are_worth_parts")
def test_gradients_in_parts():
    check(fg.value_and_grad(rosenbrock), RNG.normal(size=500), threads=3)
    check(fg.grad(lambda x, i: np.sum(x[i] ** 2)), RNG.normal(size=30), RNG.integers(0, 30, 100), threads=3)


@pytest.mark.parametrize("size", [37, 64, 500, 1001])
@pytest.mark.usefixtures("all_are_worth_parts")
def test_parts_of_loops_that_are_parted_where_a_slice_ends(size):
    def f(x):
        middle = x[size // 3 : size // 2]
        return np.sum(x**2) + np.sum(x[:size] ** 3) + np.sum(np.tanh(np.exp(middle)))

    check(fg.grad(f), RNG.normal(size=2 * size), threads=2)
    matrix = RNG.normal(size=(2 * size, 5))
    check(lambda x: np.concatenate([x[:size] @ matrix[:5], np.ones((size, 5))]), matrix, threads=2)


_POOLS = []
"""Programs refer to the memory of their pool, which has to stay."""


@pytest.fixture
def new_pool(monkeypatch):
    """A pool without helpers, of which no fork knows."""
    with mock.patch.object(os, "register_at_fork"):
        _POOLS.append(pool._Pool())
    monkeypatch.setattr(parallel, "run_chunks", lambda: _POOLS[-1].run_chunks)
    return _POOLS[-1]


@pytest.mark.usefixtures("all_are_worth_parts")
def test_parts_that_no_helper_begins_are_run_by_the_caller(new_pool):
    new_pool._memory[pool._WORKERS] = 3  # as if they were there, on cores that are busy with other work
    check(lambda x: (np.sum(np.exp(np.sin(x))), np.exp(x)), RNG.normal(size=500), threads=4)
    assert new_pool._memory[pool._DONE] == pool.MOST_CHUNKS  # they were not run one after the other without the pool


def test_helpers_run_parts(new_pool):
    threads = set()

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    def job(_shared, part):
        threads.add(threading.get_ident())
        parts.append(part)
        if len(threads) < 3:
            time.sleep(0.01)

    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(new_pool.run_chunks)
    for _ in range(100):  # on a busy machine, helpers may be late
        parts = []
        run(ctypes.cast(job, ctypes.c_void_p), None, 3)
        assert sorted(parts) == list(range(pool.MOST_CHUNKS))
        if len(threads) >= 3:
            break
    assert len(threads) >= 3
    assert new_pool._memory[pool._WORKERS] == 3
    wait_until_all_sleep(new_pool)
    threads.clear()
    run(ctypes.cast(job, ctypes.c_void_p), None, 1)
    assert len(threads) <= 2  # the caller, and one helper of three
    wait_until_all_sleep(new_pool)
    new_pool._end()
    assert new_pool._memory[pool._WORKERS] == 0


def wait_until_all_sleep(workers):
    stop = time.monotonic() + 60
    while workers._memory[pool._ASLEEP] < workers._memory[pool._WORKERS]:
        assert time.monotonic() < stop
        time.sleep(0.001)
    time.sleep(0.05)  # one that is counted twice goes to sleep now
    assert workers._memory[pool._ASLEEP] == workers._memory[pool._WORKERS]


def test_without_files_there_are_no_helpers(monkeypatch, new_pool):
    new_pool._end()
    with mock.patch.object(os, "pipe", side_effect=OSError):
        new_pool._resume()
    monkeypatch.setattr(parallel, "_WORTH_CHUNKS", 1)
    check(lambda x: np.sum(np.exp(np.sin(x))), RNG.normal(size=500), threads=4)
    new_pool._end()


PARTS_OF_MANY = """
import os, time
from concurrent.futures import ThreadPoolExecutor

def note_threads():
    if os.path.isdir("/proc/self/task"):
        end = time.monotonic() + 20
        while len(counts) == 1 and len(os.listdir("/proc/self/task")) > 1 and time.monotonic() < end:
            time.sleep(0.001)  # the system lists a thread for a while after it has ended
        counts.append(len(os.listdir("/proc/self/task")))

counts = []
os.register_at_fork(before=note_threads)  # the last one to be called, as the first one that is registered

import numpy as np, fgrad as fg
from fgrad.native import parallel

parallel._WORTH_CHUNKS = 1
x = np.random.default_rng(0).normal(size=500)

def made(threads):
    return fg.compile(lambda x: np.sum(np.exp(np.sin(x))), threads=threads)

program = made(4)
wanted = np.asarray(program(x)).tobytes()

def is_right(program):
    return all([np.asarray(program(x)).tobytes() == wanted for _ in range(100)])

def forked():
    child = os.fork()
    if not child:
        os._exit(0 if is_right(program) and is_right(made(3)) else 1)
    return os.waitpid(child, 0)[1]

print(is_right(program))
note_threads()
print(forked(), is_right(program), not counts or (counts[0] >= 4 and counts[1:] == [1]))
with ThreadPoolExecutor(4) as others:
    running = [others.submit(is_right, program) for _ in range(4)]
    import warnings
    warnings.simplefilter("ignore")  # of the user's own threads
    print([each.result() for each in [*running, others.submit(forked)]])
"""


def test_parts_of_several_threads_and_of_children():
    """No thread is left when a process forks, so that Python does not warn."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error", "-c", PARTS_OF_MANY]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert (ran.stdout, ran.stderr) == ("True\n0 True True\n[True, True, True, True, 0]\n", "")


def test_threads_of_the_environment(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert parallel.default_threads() == 3
    monkeypatch.setenv("FGRAD_NUM_THREADS", "1")
    assert parallel.default_threads() == 1
    with pytest.raises(fg.errors.ParameterError, match="threads of compile must be a positive integer"):
        fg.compile(np.sin, threads=0)


# Long programs


def chain(length):
    def f(x):
        y = x
        for i in range(length):
            y = np.sin(y) * 0.5 + x if i % 3 == 0 else (y * 1.01 if i % 3 == 1 else y - 0.1 * x)
        return np.sum(y)

    return f


def test_a_program_of_five_thousand_operations_neither_recurses_nor_has_long_functions():
    x = np.linspace(0.1, 1.0, 20)
    check(chain(100), x)
    lines = []
    for length in (1000, 5000):
        text = executable(chain(length), x).stages[0].segment.finished(set())
        lines.append(text.count("\n"))
        assert max(part.count("\n") for part in text.split("define ")) < 4000
    assert lines[1] < 8 * lines[0]
    check(chain(5000), x, rtol=1e-9)
    check(fg.grad(chain(1700)), x, rtol=1e-9)


# Loops that are made wide


def codes(function, *args, threads=1):
    """Return the code of a program that LLVM takes as it is, and that whose loops it is to make wide."""
    with mock.patch.object(Machine, "compiled", autospec=True, side_effect=Machine.compiled) as compiled:
        executable(function, *args, threads=threads)
    return (*compiled.call_args.args[1:], "")[:2]


PLACES = np.array([3, 1, 0, 2, 2, 1, 3, 0, 1, 1, 2])


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 11, 16, 19, 43])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[::3] * x[1::3],
        lambda x: np.sum(x.reshape(-1, 3).T[:, ::-1] + 1, axis=1),
        lambda x: np.stack([x[::3], x[1::3] + 1], axis=1),
        lambda x: np.diag(x * x),
        lambda x: x[PLACES % x.size] + x[0],
        lambda x: np.where(np.arange(x.size) % 2 == 0, x, -x) * 2,
        lambda x: np.arange(x.size) * x,
        lambda x: np.sum(np.where(x > 0, x, 0)),
        lambda x: np.cumsum(x) + x,
    ],
)
def test_elements_that_are_no_neighbours_are_taken_several_at_once(function, dtype, size):
    x = (RNG.normal(size=3 * size) * 10).astype(dtype)
    check(function, x, rtol=1e-5 if dtype == np.float32 else 1e-12)


@pytest.mark.skipif(not Machine.this().vectors[64] > 1, reason="one number at a time")
def test_no_loop_is_left_to_llvm_that_can_be_made_wide_here():
    def f(x, places):
        y = x.reshape(-1, 3)
        return (
            np.sum(y, axis=1),
            x[places] * np.arange(20),
            x[places],
            y[:, 0] * y[:, 1],
            np.max(x),
            np.cumsum(x),
            x[3] + x[:1],
        )

    assert codes(f, RNG.normal(size=60), np.arange(20))[1] == ""


def test_loops_over_parts_are_wide_whatever_their_length_is():
    def f(x, y):
        return np.sqrt(x * x + y * y), np.sum(x * y), np.max(y)

    x, y = RNG.normal(size=(2, 1_000_003))
    text, unvectorized = codes(f, x, y)
    assert "_chunk(" in text
    assert "<" in text.partition("_chunk(")[2].partition("\n}")[0]
    assert unvectorized == ""
    found = [check(f, x, y, threads=threads, rtol=1e-9) for threads in (1, 2, 3)]
    for one, two, three in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one, three)


def test_what_is_the_same_in_all_iterations_is_computed_before_them():
    def f(x, y):
        return x[:, None] * 2.0 + y

    (text,) = [each for each in codes(f, np.ones(5), np.ones((5, 40)))[0].split("define") if "segment0_0(" in each][:1]
    inner = text[text.index("loop2:") :]
    assert text.count("fmul") == 1
    assert "fmul" not in inner


# Rows


def normalized(x):
    mean = np.mean(x, axis=-1, keepdims=True)
    variance = np.mean((x - mean) ** 2, axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5)


def softmax(x):
    powers = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return powers / np.sum(powers, axis=-1, keepdims=True)


def rows(function, *args):
    """Return how many nests share their loops over rows, for those that do."""
    items = executable(function, *args).plan.items
    return [len(item.nests) for item in items if isinstance(item, Rows) and item.outer]


WEIGHTS = RNG.normal(size=300)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("shape", "outer"), [((300, 300), 1), ((3, 100, 300), 2), ((2, 2, 70, 300), 3)])
@pytest.mark.parametrize(("function", "count"), [(normalized, 3), (softmax, 2)])
def test_nests_over_the_same_rows_run_together_to_the_last_bit(function, count, shape, outer, dtype, threads):
    x = RNG.normal(size=shape).astype(dtype)
    whole = executable(function, x, threads=threads)
    assert [(len(item.nests), item.outer) for item in whole.plan.items if item.outer] == [(count, outer)]
    with mock.patch.object(row_fusion, "_LARGE", 1 << 60):
        apart = executable(function, x, threads=threads)
    assert not any(item.outer for item in apart.plan.items)
    np.testing.assert_array_equal(whole.run([x])[0], apart.run([x])[0])


@pytest.mark.parametrize("shape", [(300, 300), (3, 100, 300)])
@pytest.mark.parametrize(
    "function",
    [
        fg.value_and_grad(lambda x: np.sum(normalized(x) * WEIGHTS)),
        fg.value_and_grad(lambda x: np.sum(softmax(x) * WEIGHTS)),
        lambda x: (normalized(x), np.sum(x, axis=0), np.sum(x), np.max(x, axis=-1)),
        lambda x: np.sum(normalized(x), axis=0) + normalized(x)[0],
    ],
)
def test_rows_and_what_goes_across_them(function, shape):
    x = RNG.normal(size=shape)
    assert rows(function, x)
    found = [check(function, x, threads=threads, rtol=1e-11) for threads in (1, 2)]
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("is_first", [True, False])
def test_an_array_of_which_a_part_is_written_elsewhere_is_whole_in_memory(axis, is_first):
    """One row of it would be too little memory for a routine's part, which is written all at once."""
    x = RNG.normal(size=(300, 400))

    def function(x):
        parts = [np.linalg.solve(2 * np.eye(300), x), 3 * x]
        return np.concatenate(parts if is_first else parts[::-1], axis=axis) + 1

    assert executable(function, x).plan.memory_shapes() == {}  # otherwise the run would write beyond memory
    check(function, x)


def test_rows_are_not_shared_where_that_gains_nothing():
    assert not rows(normalized, np.ones((30, 300)))
    assert not rows(normalized, np.ones((30000, 10)))
    assert not rows(lambda x: logsumexp(x, axis=-1), np.ones((300, 300)))
    assert not rows(lambda x: x - np.mean(x, axis=0), np.ones((300, 300)))
    assert not rows(lambda x: x.T - np.mean(x, axis=-1), np.ones((300, 300)))


def test_what_only_a_row_needs_is_in_memory_for_one_row():
    *_, item = executable(softmax, np.ones((300, 300))).plan.items
    assert sorted(array.shape for array in item.buffers) == [(300,), (300, 300)]


def test_memory_to_which_several_places_lead_is_not_said_to_be_alone():
    """A nest writes rows, and the next one reads them from their first element on and from the second one on."""

    def f(x):
        y = np.exp(x)
        return y, y[:, 1:] - y[:, :-1]

    x = RNG.normal(size=(300, 300))
    taken = re.findall(r"define hidden void @segment0_0\((.*)\) noinline", executable(f, x).llvm)[0].split(", ")
    assert ["noalias" in each for each in taken].count(False) == 2, taken
    assert ["noalias" in each for each in taken].count(True) == 2, taken
    check(f, x)
