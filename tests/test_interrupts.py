"""Ctrl-C at every place: whatever is interrupted, nothing stays open, and the next gradient is right."""

import os
import random
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

import fgrad as fg
from fgrad.core.trace import observing, running
from fgrad.core.variable import open_watches

w = fg.Variable(2.0, name="w")
optimizer = fg.optimizers.Adam(0.1)
segment = fg.checkpoint(lambda x: np.sin(x * w))


@pytest.fixture(autouse=True)
def _numpys_settings():
    """An interrupt inside of `np.errstate.__exit__` leaves NumPy's own settings as they were in the block."""
    before = np.geterr()
    yield
    np.seterr(**before)


def minimized():
    optimizer.minimize(lambda: w * w)


def assigned():
    optimizer.apply_gradients([(0.5, w)])
    w.assign_add(1.0)


def gradient():
    fg.grad(lambda x: np.sin(x) * w)(1.0)


def nested_tapes():
    with fg.GradientTape() as outer:
        with fg.GradientTape() as inner:
            y = w**3
        slope = inner.gradient(y, w)
    return outer.gradient(slope, w)


def persistent_tape():
    with fg.GradientTape(persistent=True) as tape:
        y = w**3
        with tape.stop_recording():
            y * 2.0
        slope = tape.gradient(y, w)
    return tape.gradient(slope, w)


def checkpoint():
    with fg.GradientTape() as tape:
        y = segment(w)
    return tape.gradient(y, w)


def accumulator():
    with fg.ForwardAccumulator(w, 1.0) as forward:
        y = w * w
    return forward.jvp(y)


PROGRAMS = [(minimized, 5), (gradient, 3), (nested_tapes, 7), (persistent_tape, 7), (checkpoint, 41), (accumulator, 7)]


@contextmanager
def lost_interrupts_are_silent():
    """An interrupt while something is freed, such as a generator that is left early, cannot reach the program."""

    def hook(unraisable):
        if not isinstance(unraisable.exc_value, KeyboardInterrupt):
            before(unraisable)

    before, sys.unraisablehook = sys.unraisablehook, hook
    try:
        yield
    finally:
        sys.unraisablehook = before


@lost_interrupts_are_silent()
def interrupted_at(number, program):
    """Run a program with an interrupt at one of its instructions, and return whether it has so many."""
    left, before = number, sys.gettrace()

    def each(frame, event, arg):
        nonlocal left
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        left -= event == "opcode"
        if left == 0 and event == "opcode":
            sys.settrace(None)
            raise KeyboardInterrupt
        return each

    try:
        sys.settrace(each)
        program()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return left <= 0


def is_free(lock):
    """Return whether another thread can take a lock."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: lock.acquire(timeout=10) and not lock.release()).result()


def check_nothing_is_open():
    assert open_watches() == []
    assert running.observers == ()
    assert not observing
    assert not (w * 1.0)._trace.level  # nothing records what is read
    w.assign(2.0)
    assert fg.grad(lambda x: x * x * w)(3.0).item() == 12.0
    with fg.GradientTape() as tape:
        y = w * w
    assert running.watches == ()
    assert tape.gradient(y, w).item() == 4.0


@pytest.mark.parametrize(("program", "stride"), PROGRAMS)
def test_an_interrupt_at_any_instruction(program, stride):
    interrupted_at(10**9, program)  # Python 3.12 tells of instructions from the second time on
    number = 1
    while interrupted_at(number, program):
        check_nothing_is_open()
        number += stride
    running.call = None
    assert number > 300


def test_a_tape_that_is_kept_and_was_interrupted_when_it_opened_is_closed():
    tape = fg.GradientTape()
    interrupted_at(10**9, gradient)
    for number in range(1, 400, 3):
        interrupted_at(number, tape.__enter__)
        recording = tape._is_recording()
        assert len(open_watches()) == recording
        if recording:  # it was entered before the interrupt came
            tape.__exit__(None, None, None)
    check_nothing_is_open()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
@lost_interrupts_are_silent()
@pytest.mark.parametrize("program", [minimized, assigned, fg.compile(assigned)])
def test_signals_in_a_loop(program):
    fired = False
    for lock in (w.lock, optimizer._lock):
        while lock._is_owned():  # an earlier test interrupts between instructions where no signal is handled
            lock.release()
    program()

    def interrupt(*_):
        nonlocal fired
        fired = True
        raise KeyboardInterrupt

    def wait_for_the_interrupt(seconds):  # in a function: on 3.13 the jump of a loop belongs to no `try` around it
        signal.setitimer(signal.ITIMER_REAL, seconds)
        while not fired:
            program()

    before = signal.signal(signal.SIGALRM, interrupt)
    pauses = random.Random(0)
    try:
        for _ in range(300):
            fired = False
            try:
                wait_for_the_interrupt(pauses.uniform(1e-5, 1e-3))
            except KeyboardInterrupt:
                pass
            check_nothing_is_open()
            assert running.call is None
            if sys.version_info < (3, 14):  # from then on, a signal may come between `__enter__` and its block
                assert all(map(is_free, [w.lock, optimizer._lock]))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# Signal handlers and forks while something is compiled

COMPILES_IN_A_HANDLER = """
    import itertools, signal, sys
    import numpy as np
    import fgrad as fg

    # A handler may interrupt another one between any two lines, so each takes its place in one step.
    places, found = itertools.count(), [None] * 3

    def handler(number, frame):
        k = next(places)
        if k < 3:
            found[k] = fg.compile(lambda x: np.sum(np.exp(x)) + float(k))(np.zeros(4)).item()

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, float(sys.argv[1]), 0.004)
    for k in range(6):
        result = fg.compile(lambda x: np.sum(np.cos(x)) + np.sum(np.sin(x)) * 0)(np.zeros(5 + k))
        assert result.item() == 5.0 + k
    while None in found:
        pass
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(found)
"""

FORKS_WHILE_OTHERS_COMPILE = """
    import os, sys, threading, time, warnings
    import numpy as np
    import fgrad as fg

    warnings.simplefilter("ignore")
    shared, going = fg.compile(lambda x: np.sum(np.exp(x))), True

    def busy():
        k = 0
        while going:
            k += 1
            fg.compile(lambda x: np.sum(np.cos(x)) * float(k))(np.zeros(5))
            shared(np.zeros(k))

    thread = threading.Thread(target=busy, daemon=True)
    thread.start()
    time.sleep(float(sys.argv[1]))
    children = []
    for place in range(8):
        time.sleep(0.01)
        children.append(os.fork())
        if not children[-1]:
            own = fg.compile(lambda x: np.sum(np.exp(x)) + place)(np.zeros(4))
            os._exit(0 if own.item() == 4.0 + place and shared(np.zeros(3 + place)).item() == 3.0 + place else 1)
    print([os.waitpid(child, 0)[1] for child in children])
    going = False
    thread.join()
"""


def printed(script, *args):
    """Run a script; what hangs fails."""
    command = [sys.executable, "-c", textwrap.dedent(script), *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


@pytest.mark.parametrize("delay", ["0.001", "0.02", "0.1"])
def test_a_signal_handler_may_compile_while_something_is_compiled(delay):
    pytest.importorskip("llvmlite")
    assert printed(COMPILES_IN_A_HANDLER, delay) == "[4.0, 5.0, 6.0]\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.parametrize("delay", ["0.0", "0.05", "0.3"])
def test_children_that_are_forked_while_another_thread_compiles(delay):
    """Also while it imports the compiler, which it does first."""
    pytest.importorskip("llvmlite")
    assert printed(FORKS_WHILE_OTHERS_COMPILE, delay) == f"{[0] * 8}\n"


FORKS_WHILE_LOCKS_ARE_HELD = """
    import os, signal, threading, warnings
    import numpy as np
    import fgrad as fg

    warnings.simplefilter("ignore")
    data = np.ones((600, 600))
    w = fg.Variable(1.0)
    inside, leave = threading.Event(), threading.Event()

    def rate():
        inside.set()
        leave.wait(60)
        return 0.5

    optimizer = fg.optimizers.GradientDescent(rate)  # evaluated while a step holds its lock

    def differentiated(x):
        total = np.sum(np.sin(data[::2] * x))
        optimizer.apply_gradients([(1.0, w)])
        return total

    thread = threading.Thread(target=lambda: fg.grad(differentiated)(1.0), daemon=True)
    thread.start()
    inside.wait(60)

    def status(child):
        return os.waitpid(child, 0)[1]

    def own(x):
        total = np.sum(data * x)
        child = os.fork()
        if not child:
            assert not data.flags.writeable  # the forked thread goes on with its own derivative
        children.append(child)
        return total

    children = [os.fork()]
    if not children[0]:
        signal.alarm(60)
        data[...] = 2.0
        leave.set()
        optimizer.apply_gradients([(1.0, w)])
        os._exit(0 if w.numpy() == 0.5 else 1)
    fg.grad(own)(1.0)
    if not children[1]:
        data[...] = 2.0
        os._exit(0)
    with w.lock:
        children.append(os.fork())
    if not children[2]:
        os._exit(0)
    print(data.flags.writeable, [status(child) for child in children])
    leave.set()
    thread.join()
    print(data.flags.writeable, w.numpy())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_children_that_are_forked_while_another_thread_holds_locks():
    """What other threads hold is released in a child, and what the thread that forks holds is not."""
    assert printed(FORKS_WHILE_LOCKS_ARE_HELD) == "False [0, 0, 0]\nTrue 0.5\n"


COMPUTES = """
    import sys
    import numpy as np
    import fgrad as fg

    x = np.ones(3)
    fg.grad(lambda x: np.sum(x * x))(x), fg.vmap(np.sin)(x), fg.jvp(np.sin, (x,), (x,)), fg.trace(np.sin)(x)
    print("numpy.ma" in sys.modules)
"""


def test_nothing_of_numpys_is_imported_while_something_is_computed():
    """A child that is forked meanwhile would wait for the import for ever."""
    assert printed(COMPUTES) == "False\n"


IMPORTS_WHILE_IMPORTING = """
import sys, fgrad as fg
class Loader:
    def find_spec(self, name, path, target=None):
        if name == "fgrad.plot":
            found.append(fg.grad(lambda x: x * x)(3.0).item())  # which imports as well
found = []
sys.meta_path.insert(0, Loader())
fg.plot
print(found)
"""


def test_a_module_that_is_imported_may_ask_for_another_one():
    assert printed(IMPORTS_WHILE_IMPORTING) == "[6.0]\n"
