"""What a compiled function says of itself: lines, reports, observers, and operations of the user's own."""

import re
import threading
import types
from pathlib import Path

import numpy as np
import pytest

import fgrad as fg
from fgrad.core.primitive import PRIMITIVES
from fgrad.extend import defjvp, deflowering, defvjp, register_primitive
from fgrad.graphs.record import recorded
from fgrad.native import inspection
from fgrad.native.executable import NativeStage
from fgrad.native.functions import Function
from fgrad.native.reports import changes_between

X = np.linspace(0.5, 2.0, 6)


def line_of(part):
    """Return the text that stands in this file on a line, without its number."""
    return part.partition(": ")[2]


def lines(function, *args):
    """Return the line of each equation, in order."""
    graph, _ = recorded(function, args, {})
    return [(equation.primitive.name, line_of(equation.line)) for equation in graph.equations]


# Lines


def wave(x):
    y = np.sin(x) * x
    z = np.exp(y)
    return np.sum(z)


SINE, EXP, SUM = "y = np.sin(x) * x", "z = np.exp(y)", "return np.sum(z)"


def test_equations_know_their_lines():
    assert lines(wave, X) == [("sin", SINE), ("multiply", SINE), ("exp", EXP), ("sum", SUM)]


def test_passes_back_belong_to_the_lines_of_the_operations():
    found = lines(fg.grad(wave), X)
    assert [name for name, _ in found][3:] == ["multiply", "multiply", "multiply", "cos", "multiply", "add"]
    assert [line for _, line in found] == [SINE, SINE, EXP, EXP, *[SINE] * 5]


@pytest.mark.parametrize(
    "derivative",
    [
        lambda x: fg.jvp(wave, (x,), (x,))[1],
        lambda x: fg.jvp(fg.grad(wave), (x,), (x,))[1],
        lambda x: fg.hessian(wave)(x),
        lambda x: fg.grad(fg.checkpoint(wave))(x),
    ],
)
def test_derivatives_of_all_kinds_belong_to_lines_of_the_function(derivative):
    found = {line for _, line in lines(derivative, X)}
    assert found >= {SINE, EXP}
    assert all(line in (SINE, EXP, SUM) or line.startswith("lambda x: ") for line in found)


def test_passes_of_tapes_belong_to_the_lines_of_the_operations():
    def by_tape(x):
        with fg.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = np.cos(x) * x
        first = tape.gradient(y, x)
        return first * tape.gradient(y, x)

    found = [line for _, line in lines(by_tape, X)]
    assert found[:-1] == ["y = np.cos(x) * x"] * (len(found) - 1)
    assert found[-1] == "return first * tape.gradient(y, x)"


def test_a_pass_within_a_pass_comes_back_to_its_line():
    def inner(x):
        return np.sum(x**3)

    def outer(x):
        slope = fg.grad(inner)(x)
        return np.sum(np.cos(slope))

    found = lines(fg.grad(outer), X)
    assert ("sin", "return np.sum(np.cos(slope))") in found
    assert found[-1][1] == "return np.sum(x**3)"


def test_lines_survive_in_the_programs_of_derivatives():
    compiled = fg.compile(wave)
    fg.grad(compiled)(X)
    (program,) = compiled._programs.known.values()
    parts = program.function._derived["pull", (True,)]
    assert isinstance(parts.backward, Function)
    for function in (parts.forward, parts.backward):
        assert {line_of(each.line) for each in function.block.equations} <= {SINE, EXP, SUM}


def test_a_recording_leaves_no_line_behind():
    with pytest.raises(ZeroDivisionError):
        recorded(lambda x: fg.grad(lambda y: np.sum(y * y) * (1 / 0))(x), (X,), {})
    fg.grad(wave)(X)
    assert fg.core.trace.running.place is None
    assert fg.core.trace.running.record is list


def test_graphs_for_users_have_no_lines():
    assert {equation.line for equation in fg.trace(wave)(X).equations} == {""}


def test_which_equations_run_without_warnings():
    def parts(x):
        y = np.exp(x)
        with np.errstate(all="ignore"):
            z = np.log(y)
            with np.errstate(divide="warn"):
                z = np.sin(z)
            z = np.cos(z)
        return np.tanh(z)

    for record in (fg.trace(parts), lambda x: recorded(parts, (x,), {})[0]):
        quiet = {each.primitive.name: each.quiet for each in record(X).equations}
        assert quiet == {"exp": False, "log": True, "sin": False, "cos": True, "tanh": False}
    gradient = recorded(fg.value_and_grad(lambda x: np.sin(x)), (2.0,), {})[0]
    quiet = {each.primitive.name: each.quiet for each in gradient.equations}
    assert (quiet["sin"], quiet["cos"]) == (False, True)  # as passes back are


def test_lines_after_a_pass_that_has_failed():
    @fg.custom_gradient
    def failing(x):
        def pull(dy):
            raise ZeroDivisionError

        return x * 3.0, pull

    def function(x):
        try:
            fg.grad(lambda x: np.sum(failing(x * 2.0)))(x)
        except ZeroDivisionError:
            pass
        return np.sin(x)  # after the pass

    graph = recorded(function, (X,), {})[0]
    assert "after the pass" in graph.equations[-1].line


def test_errors_of_frozen_values_name_the_line():
    rng = np.random.default_rng(0)

    @fg.compile
    def noisy(x):
        y = 2.0 * x
        return y + rng.normal()

    with pytest.raises(fg.errors.FrozenValueError, match=r"in the operation add.*\n  at test_inspect.py:\d+: return y"):
        noisy(X)


def test_errors_of_frozen_values_in_gradients_name_the_line_of_the_operation():
    rng = np.random.default_rng(0)

    @fg.compile
    @fg.grad
    def noisy(x):
        y = x * x * rng.normal()
        return np.sum(y)

    with pytest.raises(fg.errors.FrozenValueError, match=r"at test_inspect.py:\d+: y = x \* x \* rng.normal"):
        noisy(X)


# The report


@fg.compile(static="n")
@fg.value_and_grad
def loss(p, x, n):
    h = np.tanh(x * p["w"]) + p["b"]
    return n * np.sum(h**2)


P = {"w": X, "b": 3.0}


def test_arguments_have_the_users_names():
    report = loss.inspect(P, X, 3)
    assert report.inputs == ["p['b']: float64[]", "p['w']: float64[6]", "x: float64[6]"]
    assert report.frozen == ["n: 3"]
    assert report.variables == []
    assert fg.compile(lambda x, *, by: x * by).inspect(X, by=2.0).inputs == ["x: float64[6]", "by: float64[]"]


def test_variables_are_listed():
    w = fg.Variable(X, name="weights")

    @fg.compile
    def step(x):
        w.assign_sub(0.1 * x * w)
        return np.sum(w)

    report = step.inspect(2.0)
    assert report.variables == ["weights: float64[6]"]
    np.testing.assert_array_equal(w.numpy(), X)  # nothing has run
    step.inspect(2.0, measure=True)
    np.testing.assert_array_equal(w.numpy(), X)


def test_kernels_say_what_they_compute():
    (kernel,) = fg.compile(lambda x: np.sum(np.exp(-x) * x)).inspect(X).stages
    assert (kernel.kind, kernel.shape, kernel.seconds) == ("loops", (6,), None)
    assert kernel.operations == {"negative": 1, "exp": 1, "multiply": 1, "sum": 1}
    assert kernel.flops == 4 * 6
    assert kernel.bytes == 8 * (6 + 1)
    assert kernel.vanished == 3  # of -x, exp and the product; the sum is the result
    assert [line_of(line) for line in kernel.lines] == [
        "(kernel,) = fg.compile(lambda x: np.sum(np.exp(-x) * x)).inspect(X).stages"
    ]


def test_numbers_beside_arrays_are_computed_once():
    report = fg.compile(lambda x, a: x * np.exp(a)).inspect(X, 2.0)
    assert report.flops == 6 + 1


def test_loops_have_lines_of_all_that_is_in_them():
    report = loss.inspect(P, X, 3)
    found = {line_of(line) for kernel in report.kernels for line in kernel.lines}
    assert found == {'h = np.tanh(x * p["w"]) + p["b"]', "return n * np.sum(h**2)"}
    assert report.steps == []


def stages(function, *args):
    return {name: stage for stage in fg.compile(function).inspect(*args).stages for name in stage.operations}


def test_what_numpy_runs_has_a_reason_and_advice():
    found = stages(lambda x: np.fft.fft(x).real, X)
    assert found["fft"].kind == "NumPy"
    assert found["fft"].reason == "complex128 has no native code"
    assert found["fft"].advice == "Compute with real and imaginary parts, as two arrays."
    assert "np.fft.fft" in found["fft"].lines[0]
    assert stages(lambda x: x * 2, X.astype(np.float16))["multiply"].advice == "Convert to float64 or float32."


def test_functions_with_rules_of_their_own_run_as_a_whole():
    @fg.custom_vjp
    def twice(x):
        return 2.0 * x

    twice.defvjp(lambda x: (twice(x), None), lambda _, ct: (3.0 * ct,))
    (step,) = fg.compile(lambda x: np.sin(twice(x))).inspect(X).steps
    assert step.operations == {"twice": 1}
    assert step.reason == "a function with a custom derivative, which runs as a whole"
    assert step.advice == "What it calls can be compiled itself."
    np.testing.assert_allclose(fg.compile(lambda x: np.sin(twice(x)))(X), np.sin(2.0 * X), rtol=1e-14)


def test_memory_is_counted():
    report = fg.compile(lambda x: (np.sum(x), x * 2)).inspect(X)
    assert report.memory == {"results": 8 + 48, "arena": 0, "between stages": 0, "constants": 0}
    table = np.arange(6.0)
    assert fg.compile(lambda x: x * table).inspect(X).memory["constants"] == 48
    between = fg.compile(lambda x: np.abs(np.fft.fft(x * 2))).inspect(X)
    assert between.memory["between stages"] == 48 + 96


def test_llvm_is_there_to_read():
    report = fg.compile(lambda x: np.exp(x)).inspect(X)
    assert "define i32 @segment0" in report.llvm
    assert re.search(r"@(_ZGV\w+_)?exp\(", report.llvm)
    assert fg.compile(lambda x: x).inspect(X).llvm == ""


def test_compile_times_are_known():
    seconds = fg.compile(lambda x: np.exp(x)).inspect(X).seconds
    assert list(seconds) == ["recording", "planning", "LLVM"]
    assert all(each > 0 for each in seconds.values())
    compiled = fg.compile(lambda x: np.exp(x))
    assert compiled.inspect(X, measure=True).seconds == compiled.inspect(X).seconds


def test_programs_are_counted_and_what_changes_is_named():
    power = fg.compile(static="n")(lambda x, n: x**n)
    assert power.inspect(X, 2).changes == []
    report = power.inspect(X, 3)
    assert (report.programs, report.changes) == (2, ["n: 2, 3"])
    power(X[:2].astype(np.float32), 3)
    assert power.inspect(X, 3).changes == ["x: float64[6], float32[2]", "n: 2, 3"]
    power(X, n=2)
    assert power.inspect(X, 3).changes[-1] == "what is passed by name"
    double = fg.compile(lambda p: 2 * p[0])
    double([X])
    assert double.inspect([X, X]).changes == ["how the arguments are nested"]


def test_many_changes_are_cut():
    (change,) = changes_between([[("n", str(n))] for n in range(9)])
    assert change == "n: 0, 1, 2, 3, 4, 5, ..."


def test_what_is_measured_has_seconds():
    report = loss.inspect(P, X, 3, measure=True)
    assert all(stage.seconds > 0 for stage in report.stages)
    assert "%)" in str(report)
    heads = [line for line in str(report).splitlines() if "flops" in line]
    assert heads[0].split() == ["what", "flops", "bytes", "vanished", "time"]


def test_calls_are_measured_beside_those_without_compile():
    report = loss.inspect(P, X, 3, measure=True)
    assert list(report.calls) == ["compiled", "eager"]
    assert all(each > 0 for each in report.calls.values())
    report.seconds, report.calls = {"recording": 0.5, "LLVM": 1.0}, {"compiled": 0.25, "eager": 0.75}
    assert report.calls_to_pay == 3
    assert "a call     compiled 250.0 ms, eager 750.0 ms; compiling pays after 3 calls" in str(report)
    report.calls["eager"] = 0.2
    assert report.calls_to_pay == np.inf
    assert "compiling does not pay" in str(report)
    assert np.isnan(loss.inspect(P, X, 3).calls_to_pay)
    assert "a call" not in str(loss.inspect(P, X, 3))


def test_a_function_that_assigns_is_not_called_to_be_measured():
    w = fg.Variable(1.0)
    assert fg.compile(lambda x: w.assign_add(x)).inspect(2.0, measure=True).calls == {}
    assert float(w) == 1.0


def test_each_stage_is_measured_by_itself():
    def f(x):
        y = np.fft.fft(np.exp(x)).real
        return np.sum(y) + y

    timed, alone = fg.compile(f).inspect(X, measure=True), fg.compile(f).inspect(X)
    assert [stage.operations for stage in timed.stages] == [stage.operations for stage in alone.stages]
    assert [stage.lines for stage in timed.stages] == [stage.lines for stage in alone.stages]


def test_runs_that_others_hold_up_are_not_what_a_stage_takes(monkeypatch):
    clock = 0.0

    def run(stage, values, run=NativeStage.run):
        nonlocal clock
        run(stage, values)
        clock += 0.064 if clock < 0.5 else 0.001  # as threads of BLAS that wait for each other on cores that are in use

    monkeypatch.setattr(NativeStage, "run", run)
    monkeypatch.setattr(inspection, "time", types.SimpleNamespace(perf_counter=lambda: clock))
    stages = loss.inspect(P, X, 3, measure=True).stages
    assert [round(stage.seconds, 6) for stage in stages] == [0.001] * len(stages)


def test_what_takes_long_is_not_measured_ten_times(monkeypatch):
    clock, runs = 0.0, 0

    def run(stage, values, run=NativeStage.run):
        nonlocal clock, runs
        run(stage, values)
        clock, runs = clock + 20.0, runs + 1

    monkeypatch.setattr(NativeStage, "run", run)
    monkeypatch.setattr(inspection, "time", types.SimpleNamespace(perf_counter=lambda: clock))
    stages = loss.inspect(P, X, 3, measure=True).stages
    assert runs == len(stages) > 1


def test_reports_are_read():
    report = loss.inspect(P, X, 3)
    text = str(report)
    assert repr(report) == text
    assert text.startswith(f"loss: {len(report.kernels)} kernels\n")
    for part in ("inputs     p['b']: float64[]\n", "frozen     n: 3", "memory     results", "for this function so far"):
        assert part in text
    assert "h = np.tanh" in text
    assert "time" not in text  # which was not measured


def test_reports_of_what_numpy_runs_are_read():
    text = str(fg.compile(lambda x: np.fft.fft(x).real).inspect(X))
    assert " kernels and 2 steps of NumPy's\n" in text
    assert "complex128 has no native code. Compute with real and imaginary parts, as two arrays.\n" in text


def test_long_lists_of_lines_are_cut():
    def f(x):
        x = x * 2
        x = x + 1
        x = x * 3
        x = x + 2
        return x * 4

    text = str(fg.compile(f).inspect(X))
    assert "return" not in text
    assert "and 2 lines more" in text


def test_inspect_fails_as_a_call_does():
    with pytest.raises(fg.errors.ConcretizationError):
        fg.compile(lambda x: x if x > 0 else -x).inspect(1.0)


def test_inspect_compiles_what_a_call_then_runs():
    count = 0

    def f(x):
        nonlocal count
        count += 1
        return x * 2

    compiled = fg.compile(f)
    compiled.inspect(X)
    assert count == 2  # to record it, and to compare
    compiled(X)
    assert count == 2


def test_methods_can_be_inspected():
    class Model:
        @fg.compile
        def call(self, x):
            return np.sum(x)

    assert Model().call.inspect(X).inputs == ["x: float64[6]"]


# Loops


def spring(x, iterations=60):
    for _ in range(iterations):
        y = np.sin(x) * 1.5
        x = x - 0.1 * y
    return np.sum(x)


def lines_in(text):
    """Return the sources of the lines that a text names as `file:1, 2`."""
    file, _, numbers = text.rpartition(":")
    assert file.endswith("test_inspect.py")
    source = Path(__file__).read_text().splitlines()
    return [source[int(number) - 1].strip() for number in numbers.split(", ")]


def test_loops_of_pythons_are_listed_with_their_lines():
    report = fg.compile(spring).inspect(X)
    (loop,) = report.loops
    assert loop.startswith("60 iterations of 4 operations, for test_inspect.py:")
    assert lines_in(loop) == ["y = np.sin(x) * 1.5", "x = x - 0.1 * y"]
    assert report.unrolled == []
    assert f"loops      {loop}\nmemory" in str(report)


def test_loops_of_passes_back_are_listed_too():
    forward, back = fg.compile(fg.value_and_grad(spring)).inspect(X).loops
    assert forward.startswith("60 iterations of ")
    assert back.startswith("59 iterations of ")
    assert lines_in(forward) == lines_in(back) == ["y = np.sin(x) * 1.5", "x = x - 0.1 * y"]


def test_loops_inside_of_loops_say_so():
    def nested(x):
        return fg.fori_loop(0, 5, lambda i, x: fg.fori_loop(0, 7, lambda j, y: np.sin(y), x) + 1.0, x)

    outer, inner = fg.compile(nested).inspect(X).loops
    assert outer.startswith("5 iterations of 2 operations, for ")
    assert inner.startswith("in each iteration, 7 iterations of 1 operation, for ")


def test_iterations_are_one_kernel_with_the_lines_in_order():
    (iterations,) = (stage for stage in fg.compile(spring).inspect(X).stages if stage.kind == "iterations")
    assert (iterations.shape, iterations.is_conditional) == ((60,), False)
    assert iterations.flops == 60 * 4 * 6
    assert [line_of(line) for line in iterations.lines] == ["y = np.sin(x) * 1.5", "x = x - 0.1 * y"]


def test_a_while_loop_has_the_amounts_of_an_iteration():
    def doubled(x):
        return fg.while_loop(lambda x: x < 100.0, lambda x: 2.0 * x, x)

    report = fg.compile(doubled).inspect(1.0)
    (iterations,) = report.stages
    assert (iterations.shape, iterations.is_conditional, iterations.flops) == ((), True, 1)
    assert report.loops[0].startswith("iterations of 1 operation while a condition holds, for ")
    assert "iterations while a condition holds  1 an iteration" in str(report)
    report = fg.compile(lambda x: fg.while_loop(lambda x: x < 100.0, lambda x: 2.0 * x, x, max_steps=9)).inspect(1.0)
    assert (report.stages[0].shape, report.stages[0].flops) == ((9,), 9)
    assert report.loops[0].startswith("at most 9 iterations of 1 operation while a condition holds, for ")
    assert "iterations <= 9" in str(report)


def test_iterations_that_python_runs_have_a_reason():
    report = fg.compile(lambda x: fg.fori_loop(0, 50, lambda i, x: np.sort(np.cos(x)), x)).inspect(X)
    (step,) = report.steps
    assert report.kernels == []
    assert (step.kind, step.shape) == ("Python", (50,))
    assert step.operations["cos"] == 1
    assert step.reason == "in each iteration, stable_order has no native code"
    assert "Python runs the loop" in step.advice
    assert "Python 50" in str(report)


TABLE = np.random.default_rng(0).normal(size=(200, 6))
ORDER = np.random.default_rng(1).permutation(200).tolist()


def growing(x):
    found = [x]
    for _ in range(60):
        found.append(np.mean(np.stack(found) * np.sin(found[-1]), axis=0))
    return found[-1]


def permuted(x):
    table = x * TABLE
    for i in ORDER:
        x = np.sin(x) * table[i]
    return x


def branching(x):
    for i in ORDER:
        x = np.sin(x) + 1.0 if i < 100 else np.cos(x)
    return x


def delayed(x):
    found = [x] * 20
    for _ in range(100):
        found.append(np.sin(found[-1]) * found[-15] + 0.1)
    return found[-1]


def with_new_rules(x):
    for i in range(60):
        rule = fg.custom_vjp(lambda x, i=i: np.sin(x) * i)
        rule.defvjp(lambda x: (np.sin(x), None), lambda _, ct: (ct,))
        x = rule(x) + 0.1
    return x


def at_distances(x):
    found = [x]
    for t in ORDER:
        found.append(np.sin(found[-1]) * found[max(len(found) - 1 - t % 7, 0)])
    return found[-1]


REASONS = {
    growing: r"the shapes of arrays change from iteration to iteration \(.*float64\[\d,6\], float64\[\d,6\], \.\.\.\)",
    permuted: "indices do not change by a constant step per iteration",
    branching: "iterations do not all have the same operations in the same order",
    delayed: "a value is used more than 8 iterations after the one that computes it",
    with_new_rules: "a function with custom rules is created in each iteration; create it before the loop",
    at_distances: "an input is not always computed the same number of iterations earlier",
}


@pytest.mark.parametrize("function", REASONS, ids=lambda function: function.__name__)
def test_lines_that_are_no_loop_have_a_reason(function):
    report = fg.compile(function).inspect(X)
    assert report.loops == []
    ((where, reason),) = (each.split(": ", 1) for each in report.unrolled)
    assert re.fullmatch(REASONS[function], reason)
    count, lines = where.split(" operations of ")
    assert int(count.replace(",", "")) >= 100
    assert "found" in lines_in(lines)[-1] or "x" in lines_in(lines)[-1]
    assert f"not loops  {where}: {reason}\n" in str(report)


def test_arrays_that_are_too_large_to_put_together_are_a_reason():
    tables = [TABLE[:1].repeat(20_000, 0) + i for i in range(60)]

    def scaled(x, tables):
        for table in tables:
            x = np.sin(x * table) * 1.1 + 0.2
        return x

    (text,) = fg.compile(scaled).inspect(tables[0], tables).unrolled
    assert text.endswith(": each iteration uses another array; one array of them is too large (7,200,000 elements)")


def test_an_iteration_beside_a_loop_is_no_reason_to_worry():
    def long_iteration(x):
        for _ in range(20):
            x = np.sin(np.cos(np.sin(np.cos(np.sin(np.cos(np.sin(np.cos(np.sin(np.cos(x + 1.0) + 2.0)))))))))
        return np.sum(x)

    report = fg.compile(fg.grad(long_iteration)).inspect(X)
    assert len(report.loops) == 2
    assert report.unrolled == []


# Those who look


def test_profile_shows_the_lines_of_a_compiled_function():
    @fg.compile
    def f(x):
        y = np.sin(x)
        return np.sum(y * y)

    report = fg.profile(f)(X)
    counts = [(line.source.strip(), line.operations) for line in report.lines if line.operations]
    assert counts == [("y = np.sin(x)", 1), ("return np.sum(y * y)", 2)]
    assert len(f._programs.known) == 0


def test_debug_nans_finds_the_line_in_a_compiled_function():
    @fg.compile
    def f(x):
        y = np.log(x)
        return np.sum(y * 2)

    with np.errstate(all="ignore"):  # while it is recorded
        assert np.isnan(f(-X))
    for function in (f, fg.grad(f), fg.compile(fg.grad(f)), lambda x: fg.vmap(f)(np.stack([x, x]))):
        with fg.debug_nans(), pytest.raises(fg.errors.NonFiniteError, match=r"log gave NaN(.|\n)*y = np.log"):
            function(-X)
    assert np.isnan(f(-X))


def test_debug_nans_leaves_results_as_they_are():
    compiled = fg.compile(lambda p, n: {"sum": np.sum(p["x"]) * n, "same": p["x"], "name": "text", "none": None})
    plain = compiled({"x": X}, 2)
    with fg.debug_nans():
        seen = compiled({"x": X}, 2)
    assert type(seen["sum"]) is type(plain["sum"]) is fg.Tensor
    assert type(seen["same"]) is fg.Tensor
    np.testing.assert_array_equal(seen["same"], X)
    assert seen["sum"] == plain["sum"]
    assert (seen["name"], seen["none"]) == ("text", None)


def test_numbers_of_pythons_stay_weak_where_somebody_looks():
    compiled = fg.compile(lambda x, a: x * a)
    with fg.debug_nans():
        assert compiled(X.astype(np.float32), 2.0).dtype == np.float32


def test_others_threads_run_native_code_meanwhile():
    ran = []

    def f(x):
        ran.append(threading.get_ident())
        return np.sum(x)

    compiled = fg.compile(f)
    compiled(X)
    ran.clear()
    with fg.debug_nans():
        other = threading.Thread(target=compiled, args=(X,))
        other.start()
        other.join()
        assert ran == []
        compiled(X)
    assert ran == [threading.get_ident()]


def test_arrays_and_tensors_have_one_program():
    compiled = fg.compile(lambda x, y: x * y)
    compiled(X, X)
    compiled(fg.constant(X), X)
    fg.grad(lambda x: np.sum(compiled(x, X)))(X)
    assert len(compiled._programs.known) == 1
    same = fg.compile(lambda x: x)
    same(X)
    same([X])
    assert len(same._programs.known) == 2


def test_checkpoints_look_without_running_python():
    ran = []

    @fg.compile
    def f(x):
        ran.append(1)
        return np.sin(x)

    f(X)
    ran.clear()
    fg.grad(lambda x: np.sum(fg.checkpoint(lambda y: f(y) * 2)(x)))(X)
    assert len(ran) == 0


def test_check_agrees_with_a_compiled_function():
    report = fg.check(fg.compile(wave), X)
    assert str(report).startswith("check of wave: All derivatives agree.")


def test_explain_looks_into_a_compiled_function():
    compiled = fg.compile(lambda x: (np.sum(x**2), np.floor(x)))
    x = fg.constant(X)
    with fg.debug_lines(), fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        _, rounded = compiled(x)
    (reason,) = fg.explain(tape, rounded, x).reasons
    assert (reason.kind, reason.operation) == ("rounding", "floor")


def test_explain_of_a_function_looks_into_what_it_calls():
    compiled = fg.compile(lambda x: np.sum(np.round(x)))
    text = str(fg.explain(lambda x: 2.0 * compiled(x), X))
    assert "A rounding (round) has the derivative 0" in text


def test_explain_says_where_to_look_without_lines():
    compiled = fg.compile(lambda x: np.floor(x))
    x = fg.constant(X)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        rounded = compiled(x)
    text = str(fg.explain(tape, rounded, x))
    assert "a function with a custom rule has the derivative 0 here for all 6 elements" in text
    assert "fg.debug_lines()" in text


# Operations of the user's


@pytest.fixture
def smooth():
    """An operation that NumPy cannot see into."""
    name = f"smooth{len(PRIMITIVES)}"
    operation = register_primitive(lambda x, *, by: np.array([v / (by + abs(v)) for v in x]), name=name)
    defvjp(operation, lambda ans, x, *, by: lambda ct: ct * by / (by + np.abs(x)) ** 2)
    defjvp(operation, lambda t, ans, x, *, by: t * by / (by + np.abs(x)) ** 2)
    return operation


def test_without_a_lowering_numpy_runs_a_users_operation(smooth):
    report = fg.compile(lambda x: np.sum(smooth(x, by=2.0))).inspect(X)
    (step,) = report.steps
    assert step.reason == f"{smooth.primitive.name} is an operation of the user's, which has no native code"
    assert "fgrad.extend.deflowering" in step.advice


def test_a_lowering_runs_in_place_of_an_operation(smooth):
    table = np.arange(6.0)
    deflowering(smooth, lambda x, by: x / (by + np.abs(x)) + 0.0 * table)
    compiled = fg.compile(lambda x: np.sum(smooth(2.0 * x, by=2.0)))
    assert compiled.inspect(X).steps == []
    np.testing.assert_allclose(compiled(X), np.sum(2 * X / (2.0 + 2 * X)), rtol=1e-15)
    (kernel,) = compiled.inspect(X).kernels
    assert "divide" in kernel.operations
    assert "smooth(2.0 * x" in kernel.lines[0]


def test_a_lowering_can_be_taken_back(smooth):
    deflowering(smooth, lambda x, by: x / (by + np.abs(x)))
    deflowering(smooth, None)
    assert len(fg.compile(lambda x: smooth(x, by=2.0)).inspect(X).steps) == 1


def test_derivatives_of_an_operation_are_those_of_its_rules(smooth):
    deflowering(smooth, lambda x, by: x / (by + np.abs(x)))
    expected = 2.0 / (2.0 + X) ** 2
    for function in (
        fg.grad(fg.compile(lambda x: np.sum(smooth(x, by=2.0)))),
        fg.compile(fg.grad(lambda x: np.sum(smooth(x, by=2.0)))),
    ):
        np.testing.assert_allclose(function(X), expected, rtol=1e-14)


def test_lowerings_of_several_results_and_numbers():
    name = f"parts{len(PRIMITIVES)}"
    both = register_primitive(lambda x, y: (x + y, np.float64(x.sum())), name=name)
    deflowering(both, lambda x, y: (x + y, np.sum(x)))
    compiled = fg.compile(lambda x, a: both(x, a))
    assert compiled.inspect(X, 2.0).steps == []
    added, total = compiled(X, 2.0)
    np.testing.assert_array_equal(added, X + 2.0)
    np.testing.assert_allclose(total, X.sum(), rtol=1e-15)
    np.testing.assert_array_equal(fg.compile(lambda x: both(x, 3.0)[0])(X), X + 3.0)


def test_what_a_lowering_cannot_say_in_loops_numpy_runs(smooth):
    deflowering(smooth, lambda x, by: np.fft.ifft(np.fft.fft(x / (by + np.abs(x)))).real)
    compiled = fg.compile(lambda x: smooth(x, by=2.0))
    np.testing.assert_allclose(compiled(X), X / (2.0 + X), rtol=1e-14)
    assert {stage.reason for stage in compiled.inspect(X).steps} == {"complex128 has no native code"}


def test_a_lowering_of_another_form_is_refused(smooth):
    deflowering(smooth, lambda x, by: np.sum(x))
    with pytest.raises(fg.errors.StructureError, match=r"gives float64\[\], and the operation float64\[6\]"):
        fg.compile(lambda x: smooth(x, by=2.0))(X)


def test_only_operations_have_lowerings():
    with pytest.raises(fg.errors.StructureError, match="is not an operation"):
        deflowering(np.sin, lambda x: x)


def test_an_operation_with_the_name_of_a_native_one_is_the_users(monkeypatch):
    monkeypatch.setitem(PRIMITIVES, "erf", None)  # which is put back in the end; SciPy's may not be there yet
    del PRIMITIVES["erf"]
    doubled = register_primitive(lambda x: 2.0 * x, name="erf")
    np.testing.assert_array_equal(fg.compile(lambda x: doubled(x))(X), 2.0 * X)


def test_compiled_functions_are_what_the_types_say():
    assert isinstance(fg.compile(wave), fg.Compiled)
    assert isinstance(fg.compile(wave).inspect(X), fg.Inspection)
    assert isinstance(fg.compile(wave).__wrapped__, types.FunctionType)
