"""Schedules: their values, on numbers, arrays and tensors, and their derivatives."""

import inspect
import pickle

import numpy as np
import pytest
from helpers import plain

import fgrad as fg
from fgrad import errors
from fgrad.optimizers import schedules
from fgrad.optimizers.schedules import (
    CosineDecay,
    CosineDecayRestarts,
    ExponentialDecay,
    InverseTimeDecay,
    LinearCosineDecay,
    NaturalExpDecay,
    OneCycle,
    PiecewiseConstantDecay,
    PolynomialDecay,
    ReduceOnPlateau,
    Schedule,
    WarmupCosine,
)

STEPS = [0, 5, 6, 10, 15, 16, 20, 25]
NATURAL = [
    1, 0.778800783071, 0.740818220682, 0.606530659713, 0.472366552741, 0.449328964117, 0.367879441171, 0.28650479686,
]  # fmt: skip

# TensorFlow 2.21 at these steps; the last entry is how many digits it was written down with.
TABLE = {
    "exponential": (
        ExponentialDecay(1, 10, 0.5),
        [1, 0.707106781187, 0.659753955386, 0.5, 0.353553390593, 0.329876977693, 0.25, 0.176776695297],
        12,
    ),
    "staircase": (ExponentialDecay(1, 10, 0.5, staircase=True), [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25], 15),
    "polynomial": (PolynomialDecay(1, 10, 0.1, 2), [1, 0.325, 0.244, 0.1, 0.1, 0.1, 0.1, 0.1], 15),
    "cycle": (
        PolynomialDecay(1, 10, end_learning_rate=0.1, power=2, cycle=True),
        [1, 0.325, 0.244, 0.1, 0.15625, 0.136, 0.1, 0.125],
        15,
    ),
    "inverse time": (
        InverseTimeDecay(1, 10, 0.5),
        [1, 0.8, 0.769230769231, 0.666666666667, 0.571428571429, 0.555555555556, 0.5, 0.444444444444],
        12,
    ),
    "natural exp": (NaturalExpDecay(1, 10, 0.5), NATURAL, 12),
    "piecewise": (PiecewiseConstantDecay([5, 15], [1, 0.5, 0.1]), [1, 1, 0.5, 0.5, 0.5, 0.1, 0.1, 0.1], 15),
    "cosine": (CosineDecay(1, 20, alpha=0.1), [1, 0.868198, 0.814503, 0.55, 0.231802, 0.185942, 0.1, 0.1], 6),
    "cosine with restarts": (
        CosineDecayRestarts(1, 10, t_mul=2, m_mul=0.5),
        [1, 0.5, 0.345491, 0.5, 0.426777, 0.396946, 0.25, 0.073223],
        6,
    ),
    "linear cosine": (
        LinearCosineDecay(1, 20),
        [1.001, 0.641165, 0.556725, 0.251, 0.037612, 0.020098, 0.001, 0.001],
        6,
    ),
}

# More of them, whose values are checked below.
MORE = {
    "inverse time in stairs": InverseTimeDecay(1.0, 10, 0.5, staircase=True),
    "natural exp in stairs": NaturalExpDecay(1.0, 10, 0.5, staircase=True),
    "restarts of one length": CosineDecayRestarts(1.0, 10, t_mul=1.0, m_mul=0.5, alpha=0.1),
    "restarts of odd lengths": CosineDecayRestarts(1.0, 3, t_mul=1.7),
    "warm-up": WarmupCosine(1.0, 10, 30, initial_learning_rate=0.1, end_learning_rate=0.2),
    "no warm-up": WarmupCosine(1.0, 0, 20),
    "one cycle": OneCycle(1.0, 20),
    "reduce on plateau": ReduceOnPlateau(0.5),
}
ALL = {**{name: schedule for name, (schedule, *_) in TABLE.items()}, **MORE}


def test_every_schedule_is_in_the_tables():
    classes = {each for _, each in inspect.getmembers(schedules, inspect.isclass) if issubclass(each, Schedule)}
    assert classes - {Schedule} == {type(schedule) for schedule in ALL.values()}


@pytest.mark.parametrize("name", TABLE)
def test_the_values(name):
    schedule, values, digits = TABLE[name]
    for step, value in zip(STEPS, values, strict=True):
        result = schedule(step)
        assert type(result) is float
        assert result == pytest.approx(value, abs=0.6 * 10.0**-digits)


@pytest.mark.parametrize("name", ALL)
def test_arrays_and_tensors_give_the_same_as_numbers(name):
    schedule = ALL[name]
    values = [schedule(step) for step in STEPS]
    assert [schedule(np.int64(step)) for step in STEPS] == values
    assert [schedule(float(step)) for step in STEPS] == values
    for steps in (np.array(STEPS), np.array(STEPS, float), fg.constant(STEPS), fg.Variable(STEPS)):
        result = schedule(steps)
        assert isinstance(result, np.ndarray if isinstance(steps, np.ndarray) else fg.Tensor)
        np.testing.assert_allclose(np.asarray(result), values, rtol=1e-15)
    assert schedule(np.array(STEPS).reshape(2, 4)).shape == (2, 4)
    assert plain(schedule(fg.constant(6))) == pytest.approx(schedule(6), rel=1e-15)
    assert plain(fg.vmap(schedule)(np.array(STEPS))) == pytest.approx(values, rel=1e-15)
    graph = fg.trace(schedule)(np.array(0))
    assert [graph(np.array(step)).item() for step in STEPS] == pytest.approx(values, rel=1e-15)


@pytest.mark.filterwarnings("ignore:every gradient of")
@pytest.mark.parametrize("step", [2.0, 7.0, 13.0, 18.0, 33.0])
@pytest.mark.parametrize("name", ALL)
def test_the_derivative_by_the_step(name, step):
    schedule = ALL[name]
    slope = (schedule(step + 1e-5) - schedule(step - 1e-5)) / 2e-5
    assert fg.grad(schedule)(step).item() == pytest.approx(slope, abs=1e-7)
    assert fg.jvp(schedule, (step,), (1.0,))[1].item() == pytest.approx(slope, abs=1e-7)


def test_the_derivative_by_the_parameters():
    by_rate = fg.grad(lambda rate: ExponentialDecay(rate, 10, 0.5)(20))
    assert plain(by_rate(3.0)) == 0.25
    by_length = fg.grad(lambda length: InverseTimeDecay(1.0, length, 0.5)(20))
    assert plain(by_length(10.0)) == pytest.approx(0.25 * 0.5 * 20 / 100)
    rates = fg.vmap(lambda rate, length: CosineDecay(rate, length)(5))(np.array([1.0, 2.0]), np.array([10.0, 20.0]))
    assert plain(rates) == pytest.approx([CosineDecay(1.0, 10.0)(5), CosineDecay(2.0, 20.0)(5)])
    by_value = fg.grad(lambda value: PiecewiseConstantDecay([5], [1.0, value])(6))
    assert plain(by_value(2.0)) == 1.0


def test_the_values_of_the_others():
    stairs = MORE["inverse time in stairs"]
    assert [stairs(step) for step in (9, 10, 19, 20)] == [1.0, 1 / 1.5, 1 / 1.5, 0.5]
    stairs = MORE["natural exp in stairs"]
    assert [stairs(step) for step in (9, 19)] == pytest.approx([1.0, np.exp(-0.5)])
    again = MORE["restarts of one length"]
    assert [again(step) for step in (0, 5, 10, 15, 20)] == pytest.approx([1.0, 0.55, 0.55, 0.325, 0.325])
    warm = MORE["warm-up"]
    assert [warm(step) for step in (0, 5, 10, 20, 30, 99)] == pytest.approx([0.1, 0.55, 1.0, 0.6, 0.2, 0.2])
    assert [MORE["no warm-up"](step) for step in (0, 10, 20)] == [1.0, 0.5, 0.0]
    cycle = OneCycle(2.0, 100, warmup_fraction=0.4, initial_divisor=4.0, final_divisor=10.0)
    assert [cycle(step) for step in (0, 20, 40, 70, 100, 500)] == pytest.approx([0.5, 1.25, 2.0, 1.025, 0.05, 0.05])


@pytest.mark.parametrize("t_mul", [2.0, 3.0, 1.5, 1.1])
def test_restarts_come_when_they_should(t_mul):
    # A logarithm that is rounded the wrong way would miss some of them.
    schedule, start, length = CosineDecayRestarts(1.0, 1000, t_mul=t_mul), 0.0, 1000.0
    for _ in range(12):
        assert schedule(start + 1e-6 * length) == pytest.approx(1.0, abs=1e-9)
        assert schedule(start + length / 2) == pytest.approx(0.5, abs=1e-9)
        assert schedule(start + length * (1 - 1e-6)) == pytest.approx(0.0, abs=1e-9)
        start, length = start + length, length * t_mul


@pytest.mark.parametrize("t_mul", [2, 3, 10])
def test_the_restart_itself_belongs_to_the_new_period(t_mul):
    schedule = CosineDecayRestarts(1.0, t_mul - 1, t_mul=float(t_mul))
    starts = [t_mul**i - 1 for i in range(15)]
    assert [schedule(step) for step in starts] == [1.0] * 15
    assert schedule(np.array(starts)).tolist() == [1.0] * 15


def test_schedules_can_be_compared_printed_and_pickled():
    schedule = ExponentialDecay(1.0, decay_steps=10, decay_rate=0.5)
    expected = "ExponentialDecay(initial_learning_rate=1.0, decay_steps=10, decay_rate=0.5, staircase=False)"
    assert repr(schedule) == expected
    assert pickle.loads(pickle.dumps(schedule)) == schedule


@pytest.mark.parametrize(
    ("constructor", "text"),
    [
        (lambda: ExponentialDecay(1.0, 0, 0.5), "decay_steps must be positive, and it is 0"),
        (lambda: NaturalExpDecay(1.0, -1, 0.5), "decay_steps must be positive, and it is -1"),
        (lambda: InverseTimeDecay(1.0, 0, 0.5), "decay_steps must be positive"),
        (lambda: PolynomialDecay(1.0, "ten"), "decay_steps must be positive, and it is 'ten'"),
        (lambda: PolynomialDecay(1.0, fg.constant(-1.0)), "decay_steps must be positive, and it is -1"),
        (lambda: PolynomialDecay(1.0, 0), "decay_steps must be positive"),
        (lambda: CosineDecay(1.0, 0), "decay_steps must be positive"),
        (lambda: LinearCosineDecay(1.0, 0), "decay_steps must be positive"),
        (lambda: CosineDecayRestarts(1.0, 0), "first_decay_steps must be positive"),
        (lambda: CosineDecayRestarts(1.0, 10, t_mul=0.5), "t_mul must be 1 or more, and it is 0.5"),
        (lambda: PiecewiseConstantDecay([5, 15], [1.0, 0.5]), "there are 2 values for 2 boundaries"),
        (
            lambda: PiecewiseConstantDecay([15, 5], [1.0, 0.5, 0.1]),
            r"boundaries must be increasing; they are \[15, 5\]",
        ),
        (lambda: PiecewiseConstantDecay([5, 5], [1.0, 0.5, 0.1]), "boundaries must be increasing"),
        (lambda: WarmupCosine(1.0, 10, 10), "warmup_steps must be 0 or more and below decay_steps.*10 and 10"),
        (lambda: WarmupCosine(1.0, -1, 10), "warmup_steps must be 0 or more"),
        (lambda: OneCycle(1.0, 0), "total_steps must be positive"),
        (lambda: OneCycle(1.0, 10, initial_divisor=0.0), "initial_divisor must be positive"),
        (lambda: OneCycle(1.0, 10, warmup_fraction=1.0), "warmup_fraction must be between 0 and 1"),
        (lambda: ReduceOnPlateau(1.0, mode="best"), 'mode must be "min" or "max"'),
        (lambda: ReduceOnPlateau(1.0, factor=1.0), "factor must be between 0 and 1"),
    ],
)
def test_constructors_refuse(constructor, text):
    with pytest.raises(errors.ParameterError, match=rf"{text}(.|\n)*\n  at test_schedules\.py:"):
        constructor()


def test_a_schedule_of_ones_own_needs_a_value():
    with pytest.raises(NotImplementedError, match="Schedule"):
        Schedule()(1)


# The one with a state


def rates(schedule, metrics):
    return [schedule.update(metric) for metric in metrics]


def test_a_plateau():
    schedule = ReduceOnPlateau(1.0, factor=0.5, patience=2)
    assert rates(schedule, [5, 4, 4, 4, 4, 3, 3, 3, 3]) == [1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25]
    assert schedule(0) == schedule(99) == 0.25
    assert plain(schedule(np.arange(2))) == [0.25, 0.25]


def test_what_counts_as_an_improvement():
    schedule = ReduceOnPlateau(1.0, factor=0.5, patience=0, threshold=0.1)
    assert rates(schedule, [10.0, 9.5, 8.9, 8.5]) == [1.0, 0.5, 0.5, 0.25]
    highest = ReduceOnPlateau(1.0, factor=0.5, patience=0, mode="max")
    assert rates(highest, [1.0, 2.0, 2.0, 3.0, fg.constant(1.0)]) == [1.0, 1.0, 0.5, 0.5, 0.25]
    negative = ReduceOnPlateau(1.0, factor=0.5, patience=0, threshold=0.1)
    assert rates(negative, [-10.0, -10.5, -11.5]) == [1.0, 0.5, 0.5]
    broken = ReduceOnPlateau(1.0, factor=0.5, patience=0)
    assert rates(broken, [float("nan"), 3.0, float("nan"), 2.0]) == [0.5, 0.5, 0.25, 0.25]


def test_cooldown_and_the_lowest_rate():
    schedule = ReduceOnPlateau(1.0, factor=0.5, patience=0, cooldown=2, min_learning_rate=0.2)
    assert rates(schedule, [1] * 11) == [1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.2, 0.2, 0.2, 0.2]


def test_the_state_of_a_plateau(tmp_path):
    metrics = [5, 4, 4, 4, 3, 3, 3, 3, 3, 2, 2, 2, 2]
    for cut in range(len(metrics)):
        one, other = (ReduceOnPlateau(1.0, factor=0.5, patience=1, cooldown=1) for _ in range(2))
        expected = rates(one, metrics)
        first = ReduceOnPlateau(1.0, factor=0.5, patience=1, cooldown=1)
        begun = rates(first, metrics[:cut])
        fg.save(tmp_path / "state", first.state_dict())
        other.load_state_dict(fg.load(tmp_path / "state"))
        assert begun + rates(other, metrics[cut:]) == expected
    with pytest.raises(errors.StateError, match="holds learning_rate, best, waited, cooling; the given one holds rate"):
        one.load_state_dict({"rate": 1.0})


@pytest.mark.parametrize("t_mul", [1.1, 1.3, 1.7, 3.3])
def test_restarts_at_steps_whose_periods_are_rounded(t_mul):
    schedule = CosineDecayRestarts(1.0, 10, t_mul=t_mul, m_mul=0.5)
    starts = [10 * (t_mul**k - 1) / (t_mul - 1) for k in range(6)]
    for k, start in enumerate(starts):
        assert schedule(round(start, 9)) == pytest.approx(0.5**k, abs=1e-9)
