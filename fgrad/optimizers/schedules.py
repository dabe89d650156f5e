"""Schedules: hyper-parameters that change from step to step.

A schedule is called with the number of updates made so far. It takes a number, an array or a tensor, element by
element, and can be differentiated with respect to it and to its own parameters. Passed to an optimizer in place of a
number, it is called in every step:

    optimizer = fg.optimizers.Adam(CosineDecay(0.1, decay_steps=1000))
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fgrad import errors
from fgrad.core.primitive import BOXES
from fgrad.errors import hints
from fgrad.optimizers.declared import BETWEEN, POSITIVE, at_least, declarations, fixed, placed_here, schedule_class
from fgrad.typing import Array, ArrayLike, Operand

__all__ = [
    "CosineDecay", "CosineDecayRestarts", "ExponentialDecay", "InverseTimeDecay", "LinearCosineDecay",
    "NaturalExpDecay", "OneCycle", "PiecewiseConstantDecay", "PolynomialDecay", "ReduceOnPlateau", "Schedule",
    "WarmupCosine",
]  # fmt: skip

__dir__ = __all__.copy

if not TYPE_CHECKING:  # keep mypy's errors for undefined names

    def __getattr__(name):
        raise hints.missing_name(__name__, name)


class Schedule:
    """The base class of the schedules; a subclass defines `value`.

    Example:
        >>> class Harmonic(Schedule):
        ...     def value(self, step):
        ...         return 1 / (1 + step)
        >>> Harmonic()(3)
        0.25
    """

    _called_in_steps: ClassVar[tuple[str, ...]] = ("value",)
    """The methods of a subclass on which compiled steps depend, besides the parameters."""

    def __call__(self, step: Any) -> Any:
        """Return the value after a number of updates.

        Args:
            step: a number, array or tensor, 0 before the first update.

        Returns:
            A number for a number, otherwise an array or tensor of the shape of `step`.
        """
        if type(step) not in BOXES:
            step = np.asarray(step)
        value = self.value(step if step.dtype.kind == "f" else step.astype(np.float64))
        single = type(value) not in BOXES and np.ndim(value) == 0
        return np.asarray(value).item() if single else value

    def __post_init__(self) -> None:
        for name, declared in declarations(self):
            if declared.check is not None:
                declared.check.refuse(name, getattr(self, name))

    def value(self, step: Any) -> Any:
        """Return the value for a step that is a floating-point array or tensor."""
        raise NotImplementedError(type(self).__name__)


@schedule_class
class _Decay(Schedule):
    """The parameters of the decays that never end."""

    initial_learning_rate: Any = fixed("the value at step 0")
    decay_steps: Any = fixed("the unit in which steps are counted", POSITIVE)
    decay_rate: Any = fixed("the decay in one such unit, as in the formula")
    staircase: bool = fixed("change the value only every `decay_steps` steps", default=False)

    def periods(self, step: Array) -> Any:
        """Return the steps in units of `decay_steps`, rounded down for a staircase."""
        periods = step / self.decay_steps
        return np.floor(periods) if self.staircase else periods


@schedule_class
class ExponentialDecay(_Decay):
    """`initial_learning_rate * decay_rate ** (step / decay_steps)`.

    Example:
        >>> ExponentialDecay(1.0, decay_steps=10, decay_rate=0.5)(20)
        0.25
    """

    def value(self, step: Any) -> Any:
        return self.initial_learning_rate * self.decay_rate ** self.periods(step)


@schedule_class
class NaturalExpDecay(_Decay):
    """`initial_learning_rate * exp(-decay_rate * step / decay_steps)`.

    Example:
        >>> round(NaturalExpDecay(1.0, decay_steps=10, decay_rate=0.5)(10), 6)
        0.606531
    """

    def value(self, step: Any) -> Any:
        return self.initial_learning_rate * np.exp(-self.decay_rate * self.periods(step))


@schedule_class
class InverseTimeDecay(_Decay):
    """`initial_learning_rate / (1 + decay_rate * step / decay_steps)`.

    Example:
        >>> InverseTimeDecay(1.0, decay_steps=10, decay_rate=0.5)(20)
        0.5
    """

    def value(self, step: Any) -> Any:
        return self.initial_learning_rate / (1 + self.decay_rate * self.periods(step))


@schedule_class
class PolynomialDecay(Schedule):
    """Decays from one value to another by a power: `(start - end) * (1 - step / decay_steps) ** power + end`.

    Example:
        >>> PolynomialDecay(1.0, decay_steps=10, end_learning_rate=0.0)(5)
        0.5
    """

    initial_learning_rate: Any = fixed("the value at step 0")
    decay_steps: Any = fixed("the step at which the end is reached", POSITIVE)
    end_learning_rate: Any = fixed("the value from that step on", default=0.0001)
    power: Any = fixed("the exponent; 1 gives a linear decay", default=1.0)
    cycle: bool = fixed("rise again at the end, and decay towards the next multiple of `decay_steps`", default=False)

    def value(self, step: ArrayLike) -> Any:
        if self.cycle:
            part = step / (self.decay_steps * np.maximum(np.ceil(step / self.decay_steps), 1))
        else:
            part = np.minimum(step / self.decay_steps, 1)
        span = self.initial_learning_rate - self.end_learning_rate
        return span * (1 - part) ** self.power + self.end_learning_rate


@schedule_class
class PiecewiseConstantDecay(Schedule):
    """One value up to and including the first boundary, the next one up to the second, and so on.

    Raises:
        ParameterError: a ValueError; the boundaries are not increasing, or the lengths do not match.

    Example:
        >>> schedule = PiecewiseConstantDecay([5, 15], [1.0, 0.5, 0.1])
        >>> schedule(5), schedule(6), schedule(16)
        (1.0, 0.5, 0.1)
    """

    boundaries: Sequence[Any] = fixed("increasing steps")
    values: Sequence[Any] = fixed("one more than `boundaries`")

    def __post_init__(self) -> None:
        if len(self.values) != len(self.boundaries) + 1:
            raise errors.ParameterError(
                f"there must be one more value than boundaries; there are {len(self.values)} values for "
                f"{len(self.boundaries)} boundaries."
            )
        known = all(map(_known, self.boundaries))
        if known and any(after <= before for before, after in itertools.pairwise(self.boundaries)):
            raise errors.ParameterError(f"boundaries must be increasing; they are {list(self.boundaries)}.")

    def value(self, step: Any) -> Any:
        result = self.values[0] + 0.0 * step
        for boundary, value in zip(self.boundaries, self.values[1:], strict=True):
            result = np.where(step > boundary, value, result)
        return result


@schedule_class
class CosineDecay(Schedule):
    """Decays along half a cosine (https://arxiv.org/abs/1608.03983).

    Example:
        >>> CosineDecay(1.0, decay_steps=20)(10)
        0.5
    """

    initial_learning_rate: Any = fixed("the value at step 0")
    decay_steps: Any = fixed("the step at which the end is reached", POSITIVE)
    alpha: Any = fixed("the value from that step on, as a fraction of the initial one", default=0.0)

    def value(self, step: ArrayLike) -> Any:
        fallen = _cosine(np.minimum(step / self.decay_steps, 1))
        return self.initial_learning_rate * ((1 - self.alpha) * fallen + self.alpha)


@schedule_class
class CosineDecayRestarts(Schedule):
    """Decays along half a cosine repeatedly: SGDR, https://arxiv.org/abs/1608.03983.

    Example:
        >>> schedule = CosineDecayRestarts(1.0, first_decay_steps=10, m_mul=0.5)
        >>> schedule(0), schedule(10), schedule(20)
        (1.0, 0.5, 0.25)
    """

    initial_learning_rate: Any = fixed("the value at step 0")
    first_decay_steps: Any = fixed("the length of the first period", POSITIVE)
    t_mul: float = fixed("the ratio of the lengths of successive periods", at_least(1), default=2.0)
    m_mul: Any = fixed("the ratio of the initial values of successive periods", default=1.0)
    alpha: Any = fixed("the lowest value, as a fraction of the initial one", default=0.0)

    def value(self, step: ArrayLike) -> Any:
        done = step / self.first_decay_steps
        if self.t_mul == 1:
            period = np.floor(done)
            part = done - period
        else:
            period = np.floor(np.log1p(done * (self.t_mul - 1)) / np.log(self.t_mul))
            # At a restart the logarithm may be rounded to either side of the integer, as may the starts of periods.
            reached = done * (1 + 1e-12)
            period = period + (self._start(period + 1) <= reached) - (self._start(period) > reached)
            part = np.maximum(done - self._start(period), 0) / self.t_mul**period
        fallen = self.m_mul**period * _cosine(part)
        return self.initial_learning_rate * ((1 - self.alpha) * fallen + self.alpha)

    def _start(self, period: Array) -> Any:
        """Return the start of a period, in units of the first one."""
        return (self.t_mul**period - 1) / (self.t_mul - 1)


@schedule_class
class LinearCosineDecay(Schedule):
    """A cosine multiplied with a linear decay: `(alpha + line) * cosine + beta` (https://arxiv.org/abs/1709.07417).

    Example:
        >>> LinearCosineDecay(1.0, decay_steps=20)(10)
        0.251
    """

    initial_learning_rate: Any = fixed("a factor of the whole expression")
    decay_steps: Any = fixed("the step at which the end is reached", POSITIVE)
    num_periods: Any = fixed("the number of periods of the cosine up to that step", default=0.5)
    alpha: Any = fixed("see the formula", default=0.0)
    beta: Any = fixed("see the formula", default=0.001)

    def value(self, step: ArrayLike) -> Any:
        part = np.minimum(step / self.decay_steps, 1)
        cosine = _cosine(2 * self.num_periods * part)
        return self.initial_learning_rate * ((self.alpha + 1 - part) * cosine + self.beta)


@schedule_class
class WarmupCosine(Schedule):
    """Increases linearly, then decays along half a cosine.

    Raises:
        ParameterError: a ValueError; not `0 <= warmup_steps < decay_steps`.

    Example:
        >>> schedule = WarmupCosine(1.0, warmup_steps=10, decay_steps=30)
        >>> schedule(0), schedule(5), schedule(10), schedule(30)
        (0.0, 0.5, 1.0, 0.0)
    """

    peak_learning_rate: Any = fixed("the value after `warmup_steps`")
    warmup_steps: Any = fixed("the length of the increase; may be 0")
    decay_steps: Any = fixed("the step at which the end is reached, including the warm-up")
    initial_learning_rate: Any = fixed("the value at step 0", default=0.0)
    end_learning_rate: Any = fixed("the value from that step on", default=0.0)

    def __post_init__(self) -> None:
        known = _known(self.warmup_steps) and _known(self.decay_steps)
        if known and not 0 <= self.warmup_steps < self.decay_steps:
            raise errors.ParameterError(
                "warmup_steps must be 0 or more and below decay_steps, which includes the warm-up; "
                f"they are {self.warmup_steps} and {self.decay_steps}."
            )

    def value(self, step: Any) -> Any:
        rise = np.minimum(step / np.maximum(self.warmup_steps, 1), 1)
        part = np.clip((step - self.warmup_steps) / (self.decay_steps - self.warmup_steps), 0, 1)
        falling = _between(self.end_learning_rate, self.peak_learning_rate, _cosine(part))
        rising = _between(self.initial_learning_rate, self.peak_learning_rate, rise)
        return np.where(step < self.warmup_steps, rising, falling)


@schedule_class
class OneCycle(Schedule):
    """Increases and decreases once, along half cosines: the 1cycle policy, https://arxiv.org/abs/1708.07120.

    Example:
        >>> schedule = OneCycle(1.0, total_steps=100)
        >>> schedule(0), schedule(30), schedule(100)
        (0.04, 1.0, 4e-06)
    """

    peak_learning_rate: Any = fixed("the largest value")
    total_steps: Any = fixed("the step at which the end is reached", POSITIVE)
    warmup_fraction: float = fixed("the fraction of steps in which the value increases", BETWEEN, default=0.3)
    initial_divisor: float = fixed("step 0 has `peak_learning_rate / initial_divisor`", POSITIVE, default=25.0)
    final_divisor: float = fixed("the final value is the value at step 0 divided by it", POSITIVE, default=1e4)

    def value(self, step: Any) -> Any:
        turn = self.warmup_fraction * self.total_steps
        start = self.peak_learning_rate / self.initial_divisor
        end = start / self.final_divisor
        rising = _between(self.peak_learning_rate, start, _cosine(np.minimum(step / turn, 1)))
        part = np.clip((step - turn) / (self.total_steps - turn), 0, 1)
        return np.where(step < turn, rising, _between(end, self.peak_learning_rate, _cosine(part)))


@placed_here
@dataclass
class ReduceOnPlateau(Schedule):
    """Reduces a value whenever a metric has stopped improving; pass the metric to `update`.

    It has state. An optimizer that uses it saves this state with its own.

    Args:
        learning_rate: the initial value.
        factor: the factor of each reduction.
        patience: the number of updates without improvement that are tolerated.
        threshold: the smallest improvement that counts, relative to the best metric.
        cooldown: the number of updates after a reduction that are not counted.
        min_learning_rate: the smallest value.
        mode: "min" if lower metrics are better, "max" if higher ones are.

    Raises:
        ParameterError: a ValueError; `factor` is not between 0 and 1, or `mode` is invalid.

    Example:
        >>> rate = ReduceOnPlateau(1.0, factor=0.5, patience=1)
        >>> [rate.update(loss) for loss in (3.0, 2.0, 2.0, 2.0, 2.0)]
        [1.0, 1.0, 1.0, 0.5, 0.5]
    """

    learning_rate: float
    factor: float = 0.1
    patience: int = 10
    threshold: float = 1e-4
    cooldown: int = 0
    min_learning_rate: float = 0.0
    mode: str = "min"
    _best: float | None = field(default=None, init=False, repr=False)
    _waited: int = field(default=0, init=False, repr=False)
    _cooling: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.mode not in ("min", "max"):
            raise errors.ParameterError(f'mode must be "min" or "max", and it is {self.mode!r}.')
        if not 0 < self.factor < 1:
            raise errors.ParameterError(f"factor must be between 0 and 1, and it is {self.factor}.")

    def value(self, step: Any) -> Any:
        return self.learning_rate + 0.0 * step

    def update(self, metric: Any) -> float:
        """Record a metric, one number, and return the value from now on."""
        metric = metric.item() if type(metric) in BOXES else float(metric)
        if self._improves(metric):
            self._best, self._waited = metric, 0
        else:
            self._waited += 1
        if self._cooling:
            self._cooling -= 1
            self._waited = 0
        if self._waited > self.patience:
            self.learning_rate = max(self.learning_rate * self.factor, self.min_learning_rate)
            self._waited, self._cooling = 0, self.cooldown
        return self.learning_rate

    def _improves(self, metric: float) -> bool:
        if self._best is None:
            return metric == metric  # NaN does not count
        margin = self.threshold * abs(self._best)
        return metric < self._best - margin if self.mode == "min" else metric > self._best + margin

    def state_dict(self) -> dict[str, Any]:
        """Return the state: the current value, the best metric, and two counts."""
        return {
            "learning_rate": self.learning_rate,
            "best": self._best,
            "waited": self._waited,
            "cooling": self._cooling,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state from a result of `state_dict`.

        Args:
            state: a result of `state_dict`.

        Raises:
            StateError: a ValueError; it is not a state of this class.
        """
        if set(state) != set(self.state_dict()):
            raise errors.StateError(
                f"the state of a ReduceOnPlateau holds {', '.join(self.state_dict())}; the given one holds "
                f"{', '.join(map(str, state)) or 'nothing'}."
            )
        self.learning_rate, self._best = state["learning_rate"], state["best"]
        self._waited, self._cooling = state["waited"], state["cooling"]


def _cosine(part: Array) -> Any:
    """Return half a cosine, from 1 at 0 to 0 at 1."""
    return 0.5 * (1 + np.cos(np.pi * part))


def _between(low: Operand, high: Operand, part: Operand) -> Any:
    return low * (1 - part) + high * part


def _known(value: Operand) -> bool:
    """Return whether a parameter can be checked; a tensor may stand for many values."""
    return type(value) not in BOXES
