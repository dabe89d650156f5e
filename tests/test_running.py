"""The loop of `optimizers.run`, its history, and the progress of loops."""

import importlib
import io
import signal
import sys
import types
from contextlib import redirect_stderr
from typing import ClassVar

import numpy as np
import pytest
from helpers import plain

import fgrad as fg
from fgrad import errors, progress
from fgrad.optimizers import Adam, GradientDescent, History, Momentum, run, schedules

A = np.array([1.0, -2.0])


def quadratic(p):
    return np.sum((p["x"] - A) ** 2) + p["y"] ** 2


def start():
    return {"x": np.zeros(2), "y": np.float64(3.0)}


def quiet(*args, **options):
    return run(*args, progress=False, **options)


# On variables


@pytest.mark.parametrize("given", ["one", "list", "dict", "None"])
def test_variables_are_minimized(given):
    w, b = fg.Variable(3.0, name="w"), fg.Variable([1.0, 1.0], name="b")
    params = {"one": w, "list": [w, b], "dict": {"w": w, "inner": (b,)}, "None": None}[given]
    history = quiet(lambda: (w - 1.0) ** 2 + np.sum(b**2), params, 60, GradientDescent(0.2))
    assert w.numpy() == pytest.approx(1.0)
    assert b.tolist() == ([1.0, 1.0] if given == "one" else pytest.approx([0.0, 0.0], abs=1e-9))
    assert history.params is params if given != "None" else history.params == [w, b]
    assert history.state is None
    assert (len(history), history.stopped, history.planned) == (60, "steps", 60)
    assert list(history.gradient_norms) == {"one": ["w"], "dict": ["b", "w"]}.get(given, ["w", "b"])


def test_a_run_is_minimize_again_and_again():
    w, v = fg.Variable(A, name="w"), fg.Variable(A, name="w")
    first, second = Momentum(0.05, momentum=0.9), Momentum(0.05, momentum=0.9)
    history = quiet(lambda: np.sum(w**4), w, 7, first)
    losses = []
    for _ in range(7):
        losses.append(float(np.sum(v**4)))
        second.minimize(lambda: np.sum(v**4))
    assert w.tolist() == v.tolist()
    assert history.losses.tolist() == losses
    assert first.iterations == 7
    quiet(lambda: np.sum(w**4), w, 3, first)  # the optimizer goes on
    assert first.iterations == 10


def test_the_history_is_of_what_was_computed():
    w, unused = fg.Variable([3.0, 4.0], name="w"), fg.Variable(1.0, name="u")
    history = quiet(lambda: np.sum(w**2) + 0.0 * fg.stop_gradient(unused), [w, unused], 3, GradientDescent(0.25))
    np.testing.assert_allclose(history.losses, [25.0, 6.25, 1.5625])
    np.testing.assert_allclose(history.gradient_norms["w"], [10.0, 5.0, 2.5])
    assert np.isnan(history.gradient_norms["u"]).all()
    assert history.losses.dtype == history.times.dtype == np.float64
    assert (np.diff(history.times) >= 0).all()
    assert history.times[0] > 0
    assert repr(history) == "History(3 steps, loss 25 to 1.5625, stopped='steps')"
    assert repr(quiet(lambda: w * 1.0, w, 0)) == "History(no steps, stopped='steps')"


def test_variables_that_are_read_in_some_steps_only():
    w, v = fg.Variable(1.0, name="w"), fg.Variable(1.0, name="v")
    calls = iter(range(4))
    history = quiet(lambda: w * w + (v * v if next(calls) % 2 else 0.0), None, 4, GradientDescent(0.0))
    np.testing.assert_array_equal(history.gradient_norms["w"], [2.0] * 4)
    np.testing.assert_array_equal(history.gradient_norms["v"], [np.nan, 2.0, np.nan, 2.0])


def test_variables_of_one_name_are_kept_apart():
    w, v = fg.Variable(1.0, name="w"), fg.Variable(2.0, name="w")
    norms = quiet(lambda: w * w + v * v, [w, v], 1, GradientDescent(0.0)).gradient_norms
    assert plain(norms) == {"w": [2.0], "w (2)": [4.0]}


def test_norms_neither_overflow_nor_underflow():
    w = fg.Variable([3e-200, 4e-200], name="w")
    v = fg.Variable([0.0, 0.0], name="v")
    z = fg.Variable([3 + 4j], name="z")
    rates = np.array([3e200, 4e200])
    history = quiet(lambda: w @ w / 2 + rates @ v + np.sum(np.abs(z)), None, 1, GradientDescent(0.0))
    norms = {name: each[0] for name, each in history.gradient_norms.items()}
    assert norms["w"] == pytest.approx(5e-200, rel=1e-12, abs=0)
    assert norms["v"] == pytest.approx(5e200)
    assert norms["z"] == pytest.approx(1.0)


# On containers


def test_containers_are_minimized():
    before = start()
    history = quiet(quadratic, before, 80, GradientDescent(0.2))
    assert type(history.params["x"]) is fg.Tensor
    np.testing.assert_allclose(history.params["x"], A)
    np.testing.assert_allclose(history.params["y"], 0.0, atol=1e-12)
    assert plain(before) == {"x": [0.0, 0.0], "y": 3.0}
    assert list(history.gradient_norms) == ["['x']", "['y']"]
    np.testing.assert_allclose(history.gradient_norms["['y']"][:2], [6.0, 3.6])
    assert list(quiet(lambda x: x * x, 3.0, 1).gradient_norms) == ["params"]


def test_a_run_goes_on_from_a_state():
    whole = quiet(quadratic, start(), 10, Adam(0.1))
    half = quiet(quadratic, start(), 4, Adam(0.1))
    rest = quiet(quadratic, half.params, 6, Adam(0.1), state=half.state)
    assert plain(rest.params) == plain(whole.params)
    assert plain(rest.state) == plain(whole.state)
    assert [*half.losses, *rest.losses] == whole.losses.tolist()


def test_the_default_is_adam():
    assert plain(quiet(quadratic, start(), 5).params) == plain(quiet(quadratic, start(), 5, Adam()).params)


def test_a_run_can_be_differentiated():
    def after(rate):
        return quadratic(quiet(quadratic, start(), 3, GradientDescent(rate)).params)

    # Each step leaves (1 - 2 rate) of the distance.
    distance = np.sum(A**2) + 9.0
    assert fg.grad(after)(0.1).item() == pytest.approx(distance * 6 * 0.8**5 * -2)


def test_schedules_and_skipping_work_as_elsewhere():
    rates = schedules.ExponentialDecay(0.5, decay_steps=1, decay_rate=0.5)
    history = quiet(lambda x: x * 1.0, 0.0, 3, GradientDescent(rates))
    assert history.params.item() == -(0.5 + 0.25 + 0.125)
    bad = iter([False, True, False])
    history = quiet(lambda x: x * (np.nan if next(bad) else 1.0), 0.0, 3, GradientDescent(1.0, skip_nonfinite=True))
    assert (history.params.item(), history.state.skipped, len(history)) == (-2.0, 1, 3)
    assert np.isnan(history.losses[1])
    assert plain(history.gradient_norms) == {"params": [1.0, np.inf, 1.0]}


# Callbacks


@pytest.mark.parametrize("kind", ["variables", "container"])
def test_callbacks_are_told_of_each_step(kind):
    told = []
    w = fg.Variable(3.0, name="w")

    def callback(step, loss, gradients):
        told.append((step, loss, gradients, w.numpy().item()))

    if kind == "variables":
        quiet(lambda: w * w, w, 2, GradientDescent(0.25), callback=callback)
        assert [(step, loss, value) for step, loss, _, value in told] == [(1, 9.0, 1.5), (2, 2.25, 0.75)]
        assert [(gradient.item(), variable) for gradient, variable in told[0][2]] == [(6.0, w)]
    else:
        quiet(lambda p: p["w"] ** 2, {"w": 3.0}, 2, GradientDescent(0.25), callback=callback)
        assert [(step, loss) for step, loss, *_ in told] == [(1, 9.0), (2, 2.25)]
        assert plain(told[0][2]) == {"w": 6.0}
    assert all(type(loss) is float for _, loss, *_ in told)


def raising(error):
    raise error


STOPS = {"True": lambda: True, "np.True_": lambda: np.True_, "StopIteration": lambda: raising(StopIteration)}


@pytest.mark.parametrize("answer", STOPS)
def test_a_callback_can_stop_the_run(answer):
    def callback(step, loss, gradients):
        return STOPS[answer]() if step == 3 else None

    history = quiet(quadratic, start(), 9, GradientDescent(0.1), callback=callback)
    assert (len(history), history.stopped) == (3, "callback")
    assert plain(history.params) == plain(quiet(quadratic, start(), 3, GradientDescent(0.1)).params)
    assert repr(history).startswith("History(3 of 9 steps, loss 14 to ")


@pytest.mark.parametrize("answer", [None, False, np.False_])
def test_other_answers_go_on(answer):
    assert len(quiet(quadratic, start(), 3, callback=lambda *_: answer)) == 3


@pytest.mark.parametrize("answer", [1, 0, "stop", 0.5])
def test_an_answer_that_says_neither_is_refused(answer):
    with pytest.raises(errors.ParameterError, match=f"callback returned {answer!r}; it must return True to stop"):
        quiet(quadratic, start(), 3, callback=lambda *_: answer)


def test_an_error_of_the_callback_is_the_users():
    with pytest.raises(KeyError, match="mine"):
        quiet(quadratic, start(), 3, callback=lambda *_: raising(KeyError("mine")))


def test_the_end_of_the_data_is_not_the_end_of_the_run():
    batches = iter([1.0])
    with pytest.raises(StopIteration):
        quiet(lambda x: x * next(batches), 1.0, 3)


# Ctrl-C


@pytest.fixture
def ctrl_c():
    """Interrupts raise KeyboardInterrupt, also in a job that a shell runs in the background, where they are ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_returns_what_was_done():
    w = fg.Variable(A, name="w")
    optimizer = Momentum(0.1, momentum=0.9)
    calls = []

    def loss():
        calls.append(None)
        if len(calls) == 4:
            signal.raise_signal(signal.SIGINT)
        return np.sum(w**2)

    history = quiet(loss, w, 10, optimizer)
    assert (len(history), history.stopped, optimizer.iterations) == (3, "interrupted", 3)
    again = fg.Variable(A, name="w")
    quiet(lambda: np.sum(again**2), again, 3, Momentum(0.1, momentum=0.9))
    assert w.tolist() == again.tolist()
    assert repr(history).endswith("stopped='interrupted')")


def test_ctrl_c_in_the_callback():
    history = quiet(quadratic, start(), 9, callback=lambda step, *_: raising(KeyboardInterrupt) if step == 2 else None)
    assert (len(history), history.stopped, history.state.step) == (2, "interrupted", 2)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_a_step_is_done_as_a_whole_or_not_at_all(monkeypatch, error):
    w, v = fg.Variable(1.0, name="w"), fg.Variable(2.0, name="v")
    optimizer = Momentum(0.1, momentum=0.9)
    quiet(lambda: w * w + v * v, [w, v], 2, optimizer)
    before = plain([w, v]), plain(optimizer.state_dict())
    assign, calls = fg.Variable.assign, []

    def interrupted(self, value):
        calls.append(self)
        if len(calls) == 2:  # the first variable is new, the second one is not
            raise error
        return assign(self, value)

    monkeypatch.setattr(fg.Variable, "assign", interrupted)
    if error is KeyboardInterrupt:
        history = quiet(lambda: w * w + v * v, [w, v], 2, optimizer)
        assert (len(history), history.stopped) == (0, "interrupted")
    else:
        with pytest.raises(ZeroDivisionError):
            quiet(lambda: w * w + v * v, [w, v], 2, optimizer)
    assert (plain([w, v]), plain(optimizer.state_dict())) == before


def test_ctrl_c_right_after_an_update(monkeypatch):
    w = fg.Variable(A, name="w")
    optimizer = Momentum(0.1, momentum=0.9)
    quiet(lambda: np.sum(w**2), w, 2, optimizer)
    before, apply = (plain(w), plain(optimizer.state_dict())), optimizer.apply_gradients
    monkeypatch.setattr(optimizer, "apply_gradients", lambda pairs: (apply(pairs), raising(KeyboardInterrupt)))
    history = quiet(lambda: np.sum(w**2), w, 2, optimizer)
    assert (len(history), history.stopped) == (0, "interrupted")
    assert (plain(w), plain(optimizer.state_dict())) == before


# What is not finite


@pytest.mark.parametrize("kind", ["variables", "container"])
def test_a_loss_that_is_not_finite_stops_the_run(kind):
    w = fg.Variable(4.0, name="w")
    losses = iter([1.0, 1.0, np.nan])
    if kind == "variables":
        args, name = (lambda: w * next(losses), w), "variable 'w'"
    else:
        args, name = (lambda p: p["w"] * next(losses), {"w": 4.0}), r"parameter \['w'\]"
    with pytest.raises(errors.DivergenceError, match="nan in step 3, and was 3 in the step before") as caught:
        quiet(*args, 9, GradientDescent(1.0))
    assert caught.match(f"The gradient is not finite for {name}.\nThis step was not made")
    history = caught.value.history
    assert (history.losses.tolist(), history.stopped) == ([4.0, 3.0], "error")
    assert plain(w if kind == "variables" else history.params["w"]) == 2.0


def test_a_gradient_that_is_not_finite_stops_the_run():
    with pytest.raises(FloatingPointError, match="in step 1.\nThe gradient is not finite for parameter params"):
        quiet(np.sqrt, 0.0, 3)


def test_what_is_not_finite_can_be_admitted():
    with np.errstate(invalid="ignore"), pytest.warns(errors.NonFiniteGradientWarning) as caught:
        history = quiet(np.sqrt, 0.0, 2, GradientDescent(0.1), check_finite=False)
    assert len(caught) == 1
    assert history.losses[0] == 0.0
    assert np.isnan(history.losses[1])
    assert history.gradient_norms["params"][0] == np.inf
    assert history.params.item() != history.params.item()


# What is refused


@pytest.mark.parametrize(
    ("args", "kind", "text"),
    [
        ((3.0, 1.0, 5), errors.NotCallableError, "loss must be a function, and it is 3.0"),
        ((quadratic, start(), -1), errors.ParameterError, "steps must be a number of steps, 0 or more, and it is -1"),
        ((quadratic, start(), 2.5), errors.ParameterError, "and it is 2.5"),
        ((quadratic, start(), True), errors.ParameterError, "and it is True"),
        ((quadratic, {}, 5), errors.NoVariablesError, "params is empty"),
        ((quadratic, [fg.Variable(1.0), 2.0], 5), errors.StructureError, "it holds both"),
        ((lambda p: p * A, 1.0, 5), errors.NonScalarError, r"returned shape \(2,\)"),
        ((lambda p: p * 1j, 1.0, 5), errors.NonScalarError, "needs a function with a real scalar result"),
        ((lambda p: p, 3, 5), errors.DtypeError, "parameter params has dtype int64"),
    ],
)
def test_what_is_refused(args, kind, text):
    with pytest.raises(kind, match=text):
        quiet(*args)


@pytest.mark.filterwarnings("ignore::fgrad.errors.NoGradientWarning")
def test_what_is_refused_of_variables():
    w = fg.Variable(A, name="w")
    with pytest.raises(errors.NonScalarError, match=r"scalar loss; it has shape \(2,\)"):
        quiet(lambda: w * 1.0, w, 3)
    with pytest.raises(errors.NonScalarError, match="scalar loss; it has a list"):
        quiet(lambda: [w[0], w[1]], w, 3)
    with pytest.raises(errors.OutputError, match="must be real to be minimized"):
        quiet(lambda: w[0] * 1j, w, 3)
    with pytest.raises(errors.NoGradientsError, match="No gradients provided for any variable"):
        quiet(lambda: fg.stop_gradient(w[0]), w, 3)
    with pytest.raises(errors.ParameterError, match="for variables the optimizer keeps it"):
        quiet(lambda: w[0], w, 3, state=Adam().init(1.0))
    assert w.tolist() == A.tolist()


# Progress


class Bar:
    """Stands in for tqdm's."""

    made: ClassVar[list["Bar"]] = []

    def __init__(self, total, desc):
        self.total, self.desc, self.done, self.notes, self.closed = total, desc, 0, [], False
        Bar.made.append(self)

    def update(self):
        self.done += 1

    def set_postfix_str(self, text, refresh):
        assert not refresh  # to draw at each step would take longer than the step
        self.notes.append(text)

    def close(self):
        self.closed = True


@pytest.fixture
def bars(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", types.SimpleNamespace(tqdm=Bar))
    Bar.made = []
    return Bar.made


@pytest.fixture
def without_tqdm(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)


def test_tqdm_shows_a_run(bars):
    run(quadratic, start(), 5, GradientDescent(0.5))
    (bar,) = bars
    assert (bar.total, bar.desc, bar.done, bar.closed) == (5, "optimizing", 5, True)
    assert bar.notes == ["loss 14", *["loss 0"] * 4]


def test_a_run_that_stops_early_closes_its_bar(bars):
    run(quadratic, start(), 5, callback=lambda step, *_: step == 2)
    with pytest.raises(errors.DivergenceError, match="the loss is 0"):
        run(np.sqrt, 0.0, 5)
    assert [(bar.done, bar.closed) for bar in bars] == [(1, True), (0, True)]


def test_tqdm_itself():
    importlib.import_module("tqdm")
    with redirect_stderr(io.StringIO()) as shown:
        run(quadratic, start(), 3, GradientDescent(0.5))
    assert "optimizing: 100%" in shown.getvalue()
    assert "3/3" in shown.getvalue()
    assert "loss 0" in shown.getvalue()


def test_without_tqdm_there_are_lines(without_tqdm, capsys, monkeypatch):
    run(quadratic, start(), 4, GradientDescent(0.5))
    assert capsys.readouterr() == ("", "optimizing: 4 of 4, loss 0\n")
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
    assert list(progress.track("ab")) == ["a", "b"]
    assert capsys.readouterr().err == "progress: 1 of 2\nprogress: 2 of 2\n"
    assert list(progress.track((i for i in range(2)), "items")) == [0, 1]
    assert capsys.readouterr().err == "items: 1\nitems: 2\n"


def test_nothing_is_shown_where_it_is_not_wanted(bars, capsys):
    quiet(quadratic, start(), 3)
    with progress.track(range(3), show=False) as bar:
        for _ in bar:
            bar.note("unseen")
    assert bars == []
    assert capsys.readouterr() == ("", "")


def test_track(bars):
    with progress.track([1, 2, 3], "training") as bar:
        for number in bar:
            bar.note(f"number {number}")
            if number == 2:
                break
    (made,) = bars
    assert (made.total, made.desc, made.done, made.closed) == (3, "training", 1, True)
    assert made.notes == ["number 1", "number 2"]
    assert list(progress.track(iter([]))) == []
    with pytest.raises(KeyError, match="inside"), progress.track([1]) as bar:
        for _ in bar:
            raise KeyError("inside")
    assert all(each.closed for each in bars)
    both = progress.track([1, 2])
    assert [*both, *both] == [1, 2, 1, 2]


def test_the_history_is_public():
    assert isinstance(quiet(quadratic, start(), 1), History)
    assert fg.optimizers.run is run
    assert fg.progress is progress
