"""The gradient tape: its life, what it takes and returns, and tapes among other transforms."""

import itertools
import warnings
from collections import namedtuple

import numpy as np
import pytest
from helpers import along, plain

import fgrad as fg
import fgrad.compat.tensorflow as tf
from fgrad import errors
from fgrad.core.tree import leaves_and_nones
from fgrad.errors import NoGradientWarning
from fgrad.tapes.tape import gradients_on

ZERO = fg.UnconnectedGradients.ZERO


@pytest.fixture
def x():
    return fg.constant(3.0)


def squared(x, **options):
    """Return a tape that has recorded x * x, and the result."""
    with fg.GradientTape(**options) as tape:
        tape.watch(x)
        y = x * x
    return tape, y


# Life


def test_after_the_block(x):
    tape, y = squared(x)
    gradient = tape.gradient(y, x)
    assert type(gradient) is fg.Tensor
    assert gradient.item() == 6.0
    assert y.item() == 9.0


@pytest.mark.filterwarnings("ignore::fgrad.errors.NoGradientWarning")
def test_a_tensor_that_is_not_watched(x):
    with fg.GradientTape() as tape:
        y = x * x
    assert tape.gradient(y, x) is None


def test_watch_counts_from_then_on(x):
    with fg.GradientTape() as tape:
        y = x * x
        tape.watch(x)
        z = x * y
    assert tape.gradient(z, x).item() == 9.0


def test_watching_twice(x):
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        tape.watch(x)
        z = y * x
    assert tape.gradient(z, x).item() == 27.0


def test_only_one_gradient_unless_persistent(x):
    tape, y = squared(x)
    tape.gradient(y, x)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="non-persistent GradientTape can only be used to compute one set"):
            tape.gradient(y, x)


def test_a_tape_that_was_never_entered(x):
    for persistent in (False, True):
        tape = fg.GradientTape(persistent=persistent)
        with pytest.raises(RuntimeError, match="never entered"):
            tape.gradient(x, x)
        with pytest.raises(RuntimeError, match="never entered"):
            tape.watch(x)
        with pytest.raises(RuntimeError, match="never entered"):
            tape.stop_recording().__enter__()
        assert tape.watched_variables() == ()


def test_watch_on_a_tape_that_is_used_up(x):
    tape, y = squared(x)
    tape.gradient(y, x)
    with pytest.raises(RuntimeError, match="one set of gradients"):
        tape.watch(x)


@pytest.mark.filterwarnings("ignore::fgrad.errors.NoGradientWarning")
def test_watch_after_the_block_has_no_effect(x):
    tape, y = squared(x)
    other = fg.constant(5.0)
    tape.watch(other)
    z = other * other
    assert plain(tape.gradient(y, [x, other])) == [6.0, None]
    tape, y = squared(x, persistent=True)
    tape.watch(other)
    assert plain(other * other) == 25.0
    assert z.item() == 25.0
    assert tape.gradient(other * other, other) is None


@pytest.mark.filterwarnings("ignore::fgrad.errors.NoGradientWarning")
def test_operations_after_the_block_are_not_recorded(x):
    tape, y = squared(x, persistent=True)
    z = y * y
    assert tape.gradient(z, x) is None
    assert tape.gradient(y, x).item() == 6.0


def test_a_gradient_inside_the_block_ends_the_recording(x):
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        assert tape.gradient(y, x).item() == 6.0
        z = x * y
        assert type(np.asarray(z)) is np.ndarray  # not traced any more
        with pytest.raises(RuntimeError, match="one set of gradients"):
            tape.watch(x)
    assert plain(z) == 27.0


@pytest.mark.filterwarnings("ignore::fgrad.errors.NoGradientWarning")
def test_a_persistent_tape_records_a_gradient_in_its_own_block(x):
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x * x
        first = tape.gradient(y, x)
        second = tape.gradient(first, x)
        third = tape.gradient(second, x)
    assert plain((first, second, third)) == (27.0, 18.0, 6.0)
    assert tape.gradient(first, x).item() == 18.0
    assert tape.gradient(second, x).item() == 6.0
    assert tape.gradient(third, x) is None
    assert tape.gradient(third, x, unconnected_gradients=ZERO).item() == 0.0
    assert tape.gradient(y, x).item() == 27.0


@pytest.mark.filterwarnings("ignore::fgrad.errors.NoGradientWarning")
def test_a_gradient_taken_outside_is_not_recorded(x):
    tape, y = squared(x, persistent=True)
    first = tape.gradient(y, x)
    assert first.item() == 6.0
    assert tape.gradient(first, x) is None


def test_a_persistent_tape_answers_any_number_of_times(x):
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = y * y
    for _ in range(2):
        assert tape.gradient(z, x).item() == 108.0
        assert tape.gradient(y, x).item() == 6.0
        assert tape.gradient(z, y).item() == 18.0
        assert plain(tape.gradient(z, [x, y])) == [108.0, 18.0]
        with pytest.warns(NoGradientWarning, match="it was computed, or watched, only after the target"):
            assert tape.gradient(y, z) is None


def test_intermediate_results_as_sources_of_a_single_use_tape(x):
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        z = y * y
    assert plain(tape.gradient(z, {"x": x, "y": y, "z": z})) == {"x": 108.0, "y": 18.0, "z": 1.0}


@pytest.mark.parametrize("persistent", [False, True])
def test_re_entering_an_open_tape(x, persistent):
    with fg.GradientTape(persistent=persistent) as tape:
        tape.watch(x)
        with pytest.raises(ValueError, match="Tape is still recording"):
            tape.__enter__()
        y = x * x
    assert tape.gradient(y, x).item() == 6.0


@pytest.mark.filterwarnings("ignore::fgrad.errors.NoGradientWarning")
@pytest.mark.parametrize("persistent", [False, True])
def test_entering_again_goes_on(x, persistent):
    tape, y = squared(x, persistent=persistent)
    between = y * 1.0
    with tape:
        z = y * x
    assert plain(tape.gradient(z, [x, y, between])) == [27.0, 3.0, None]


@pytest.mark.filterwarnings("ignore::fgrad.errors.NoGradientWarning")
def test_entering_again_after_use_starts_afresh(x):
    w = fg.Variable(5.0)
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = x * x * w
    tape.gradient(y, x)
    with tape:
        assert tape.watched_variables() == ()
        z = x * 2.0
        u = w * 2.0
    assert plain(tape.gradient([z, u], [x, w])) == [None, 2.0]
    with tape:
        tape.watch(x)
        z = x * 2.0
    assert tape.gradient(z, x).item() == 2.0


def test_an_exception_in_the_block(x):
    tape = fg.GradientTape()
    with pytest.raises(KeyError, match="stop"), tape:
        tape.watch(x)
        y = x * x
        raise KeyError("stop")
    assert np.asarray(y * x).item() == 27.0  # nothing is recorded any more
    assert tape.gradient(y, x).item() == 6.0


def test_a_long_chain(x):
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in range(100_000):
            y = y + 1.0
    assert tape.gradient(y, x).item() == 1.0


def test_results_are_concrete_after_the_block(x):
    tape, y = squared(x)
    gradient = tape.gradient(y, x)
    for value in (x, y, gradient):
        assert type(np.asarray(value)) is np.ndarray
    assert "traced" not in repr(y) + repr(x) + repr(gradient)


# Targets and sources


Point = namedtuple("Point", ["x", "y"])


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (lambda v: v * v, [2.0, 4.0]),
        (lambda v: [v * v, v], [3.0, 5.0]),
        (lambda v: {"a": v * v, "b": (v, v)}, [4.0, 6.0]),
        (lambda v: Point(v * v, v[0]), [3.0, 4.0]),
        (lambda v: v, [1.0, 1.0]),
        (lambda v: [v, v], [2.0, 2.0]),
    ],
)
def test_targets_are_summed(target, expected):
    v = fg.constant([1.0, 2.0])
    with fg.GradientTape() as tape:
        tape.watch(v)
        y = target(v)
    assert plain(tape.gradient(y, v)) == expected


def test_sources_keep_their_structure():
    a, b, c = fg.constant(2.0), fg.constant(3.0), fg.constant(5.0)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch([a, {"b": b}, (c,)])
        y = a * b * c
    assert plain(tape.gradient(y, [a, b])) == [15.0, 10.0]
    assert plain(tape.gradient(y, (a, b))) == (15.0, 10.0)
    result = tape.gradient(y, {"bd": [b, (c,)], "a": a})
    assert plain(result) == {"bd": [10.0, (6.0,)], "a": 15.0}
    assert list(result) == ["bd", "a"]
    point = tape.gradient(y, Point(c, a))
    assert type(point) is Point
    assert plain(point) == Point(6.0, 15.0)
    assert tape.gradient(y, []) == []
    assert tape.gradient(y, {}) == {}
    assert plain(tape.gradient(y, [a, a])) == [15.0, 15.0]


@pytest.mark.filterwarnings("ignore::fgrad.errors.NoGradientWarning")
def test_unconnected_sources():
    x, y = fg.constant(3.0), fg.constant(np.float32([1, 2]))
    with fg.GradientTape(persistent=True) as tape:
        tape.watch([x, y])
        z = x * x
        c = fg.constant(7.0)
    assert plain(tape.gradient(z, [x, y])) == [6.0, None]
    assert plain(tape.gradient(z, [x, y], unconnected_gradients="none")) == [6.0, None]
    for choice in (ZERO, "zero"):
        gradients = tape.gradient(z, [x, y], unconnected_gradients=choice)
        assert plain(gradients) == [6.0, [0.0, 0.0]]
        assert gradients[1].dtype == np.float32
    assert tape.gradient(c, x) is None
    assert tape.gradient(c, x, unconnected_gradients=ZERO).item() == 0.0
    with pytest.raises(ValueError, match="unconnected_gradients: 'bogus'"):
        tape.gradient(z, x, unconnected_gradients="bogus")
    assert tape.gradient(z, x).item() == 6.0


@pytest.mark.parametrize("wrong", [3.0, None, np.ones(2), "text"])
def test_targets_and_sources_must_be_tensors(x, wrong):
    tape, y = squared(x)
    with pytest.raises(TypeError, match="target must be a Tensor, a Variable or a container"):
        tape.gradient(wrong, x)
    with pytest.raises(TypeError, match="target must be a Tensor"):
        tape.gradient([y, wrong], x)
    with pytest.raises(TypeError, match="sources must be a Tensor, a Variable or a container"):
        tape.gradient(y, wrong)
    assert tape.gradient(y, x).item() == 6.0  # the refused calls have not used it up


@pytest.mark.parametrize(
    ("wrong", "name"), [(np.ones(2), "ndarray"), (3.0, "float"), ("text", "str"), (None, "NoneType")]
)
def test_only_tensors_can_be_watched(x, wrong, name):
    with fg.GradientTape() as tape:
        with pytest.raises(ValueError, match=f"Passed in object .* of type '{name}'"):
            tape.watch(wrong)
        if wrong is not None:  # inside of a container None is no leaf
            with pytest.raises(ValueError, match=f"Passed in object .* of type '{name}'"):
                tape.watch([x, wrong])


@pytest.mark.filterwarnings("ignore::fgrad.errors.NoGradientWarning")
def test_an_integer_tensor():
    n = fg.constant(3)
    with fg.GradientTape(persistent=True) as tape:
        with pytest.warns(NoGradientWarning, match="watched tensor has dtype int64"):
            tape.watch(n)
        y = n * 2.0
    assert tape.gradient(y, n) is None
    zero = tape.gradient(y, n, unconnected_gradients=ZERO)
    assert (zero.item(), zero.dtype) == (0, np.int64)


def test_casts():
    x = fg.constant(2.5)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        low = (x * x).astype(np.float32)
        cut = x.astype(int) * 2.0 + x
    gradient = tape.gradient(low, x)
    assert (gradient.item(), gradient.dtype) == (5.0, np.float64)
    assert tape.gradient(cut, x).item() == 1.0


def test_what_leaves_the_trace(x):
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        stopped = fg.stop_gradient(x) * x
        array = x.numpy() * x
        number = int(x) * x
        item = x.item() * x
        away = fg.stop_gradient(x) * 2.0
    for target in (stopped, array, number, item):
        assert target.item() == 9.0
        assert tape.gradient(target, x).item() == 3.0
    assert tape.gradient(away, x) is None
    assert tape.gradient(away, x, unconnected_gradients=ZERO).item() == 0.0


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda z: np.abs(z) ** 2, 6 + 8j),
        (lambda z: z * z, 6 - 8j),
        (lambda z: np.real(z * z), 6 - 8j),
        (np.conj, 1 - 0j),
        (np.exp, np.conj(np.exp(3 + 4j))),
    ],
)
def test_complex_sources(f, expected):
    z = fg.constant(3 + 4j)
    with fg.GradientTape() as tape:
        tape.watch(z)
        y = f(z)
    assert tape.gradient(y, z).item() == pytest.approx(expected, rel=1e-14)


def test_numpy_functions_are_recorded(x):
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = np.sin(x) + np.sum(np.stack([x, x * x]))
    assert tape.gradient(y, x).item() == pytest.approx(np.cos(3.0) + 7.0, rel=1e-15)


def test_writing_to_a_watched_tensor():
    x = fg.constant([1.0, 2.0, 3.0])
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        z = x * 1.0
        z[0] = 10.0
        y = np.sum(z * z)
    assert plain(tape.gradient(y, x)) == [0.0, 4.0, 6.0]
    assert plain(tape.gradient(y, z)) == [20.0, 4.0, 6.0]
    assert plain(x) == [1.0, 2.0, 3.0]


# output_gradients


@pytest.fixture
def recorded():
    v = fg.constant([1.0, 2.0, 3.0])
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(v)
        y = v * v
        s = v * 1.0
    return tape, v, y, s


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (np.array([1.0, 10.0, 100.0]), [2.0, 40.0, 600.0]),
        (fg.constant([1.0, 10.0, 100.0]), [2.0, 40.0, 600.0]),
        ([1.0, 10.0, 100.0], [2.0, 40.0, 600.0]),
        (np.float32([1, 10, 100]), [2.0, 40.0, 600.0]),
        (np.array([1, 10, 100]), [2.0, 40.0, 600.0]),
        (2.0, [4.0, 8.0, 12.0]),
        (np.array(2.0), [4.0, 8.0, 12.0]),
        (None, [2.0, 4.0, 6.0]),
    ],
)
def test_output_gradients_of_one_target(recorded, weights, expected):
    tape, v, y, _ = recorded
    gradient = tape.gradient(y, v, output_gradients=weights)
    assert plain(gradient) == expected
    assert gradient.dtype == np.float64


def test_output_gradients_of_several_targets(recorded):
    tape, v, y, s = recorded
    weights = np.array([1.0, 10.0, 100.0])
    assert plain(tape.gradient([y, s], v, output_gradients=[weights, 10.0])) == [12.0, 50.0, 610.0]
    assert plain(tape.gradient([y, s], v, output_gradients=(weights, None))) == [3.0, 41.0, 601.0]
    assert plain(tape.gradient([y, s], v, output_gradients=[None, 10.0])) == [12.0, 14.0, 16.0]
    assert plain(tape.gradient({"y": y, "s": s}, v, output_gradients={"s": 10.0, "y": weights})) == [
        12.0, 50.0, 610.0,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("weights", "text"),
    [
        (np.ones(2), r"shape \(2,\).*shape \(3,\)"),
        ([1.0, 2.0], r"shape \(2,\).*shape \(3,\)"),
        (np.ones((1, 3)), r"shape \(1, 3\).*shape \(3,\)"),
    ],
)
def test_output_gradients_of_another_shape(recorded, weights, text):
    tape, v, y, _ = recorded
    with pytest.raises(ValueError, match=text):
        tape.gradient(y, v, output_gradients=weights)


@pytest.mark.parametrize(
    ("weights", "text"), [([1.0], "1 entries for 2 results"), ([1.0, 2.0, 3.0], "3 entries for 2 results")]
)
def test_output_gradients_of_another_count(recorded, weights, text):
    tape, v, y, s = recorded
    with pytest.raises(ValueError, match=text):
        tape.gradient([y, s], v, output_gradients=weights)


def test_output_gradients_that_do_not_fit_use_nothing_up(x):
    tape, y = squared(x)
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        tape.gradient(y, x, output_gradients=np.ones(2))
    assert tape.gradient(y, x).item() == 6.0


def test_the_result_can_be_differentiated_by_output_gradients(x):
    weights = fg.constant([1.0, 10.0])
    v = fg.constant([1.0, 2.0])
    with fg.GradientTape() as outer:
        outer.watch(weights)
        with fg.GradientTape() as inner:
            inner.watch(v)
            y = v * v
        gradient = inner.gradient(y, v, output_gradients=weights)
    assert plain(gradient) == [2.0, 40.0]
    assert plain(outer.gradient(gradient, weights)) == [2.0, 4.0]


# Variables


@pytest.mark.filterwarnings("ignore::fgrad.errors.NoGradientWarning")
def test_trainable_variables_are_watched():
    a, b, n = fg.Variable(2.0), fg.Variable(3.0, trainable=False), fg.Variable(4)
    with fg.GradientTape(persistent=True) as tape:
        y = b * a * a * n
    assert plain(tape.gradient(y, [a, b, n])) == [48.0, None, None]
    assert tape.watched_variables() == (a,)
    with fg.GradientTape() as tape:
        tape.watch(b)
        y = a * b
    assert [id(v) for v in tape.watched_variables()] == [id(a), id(b)]
    assert plain(tape.gradient(y, [a, b])) == [3.0, 2.0]


def test_watch_accessed_variables_can_be_switched_off():
    a, b = fg.Variable(2.0), fg.Variable(3.0)
    with fg.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(b)
        y = a * b
    assert tape.watched_variables() == (b,)
    assert plain(tape.gradient(y, [a, b])) == [None, 2.0]


def test_watched_variables_are_in_the_order_of_creation():
    a, b, n = fg.Variable(2.0), fg.Variable(3.0), fg.Variable(4, trainable=True)
    with fg.GradientTape() as tape:
        y = n * b * a
    assert [id(v) for v in tape.watched_variables()] == [id(a), id(b), id(n)]
    tape.gradient(y, a)
    assert type(tape.watched_variables()) is tuple
    assert [id(v) for v in tape.watched_variables()] == [id(a), id(b), id(n)]


def test_read_value_watches():
    a = fg.Variable(2.0)
    with fg.GradientTape() as tape:
        y = a.read_value() * 3.0
    assert tape.watched_variables() == (a,)
    assert tape.gradient(y, a).item() == 3.0


def test_each_read_keeps_its_value():
    a = fg.Variable(2.0)
    with fg.GradientTape() as tape:
        y = a * a
        a.assign(10.0)
        y = y + a * a
    assert y.item() == 104.0
    assert tape.gradient(y, a).item() == 24.0


@pytest.mark.filterwarnings("ignore::fgrad.errors.NoGradientWarning")
def test_the_variable_as_target_and_its_value_as_source():
    a = fg.Variable(2.0)
    with fg.GradientTape(persistent=True) as tape:
        y = a * 3.0
    assert tape.gradient(a, a).item() == 1.0
    assert tape.gradient(y, a.value()) is None
    assert plain(tape.gradient([y, a], a)) == 4.0


def test_rows_of_a_variable():
    table = fg.Variable(np.zeros((3, 2)))
    with fg.GradientTape(persistent=True) as tape:
        rows = table[[0, 2, 0]]
        both = np.sum(rows) + np.sum(table)
    assert plain(tape.gradient(rows, table)) == [[2.0, 2.0], [0.0, 0.0], [1.0, 1.0]]
    assert plain(tape.gradient(both, table)) == [[3.0, 3.0], [1.0, 1.0], [2.0, 2.0]]


def test_a_gradient_has_the_dtype_and_shape_of_its_source():
    for dtype in (np.float16, np.float32, np.float64, np.complex64):
        a = fg.Variable(np.ones((2, 1)), dtype=dtype)
        with fg.GradientTape() as tape:
            y = np.sum(np.abs(a * np.ones((1, 3)))) * np.float64(2.0)
        gradient = tape.gradient(y, a)
        assert (gradient.dtype, gradient.shape) == (dtype, (2, 1))


# stop_recording and reset


@pytest.mark.filterwarnings("ignore::fgrad.errors.NoGradientWarning")
def test_stop_recording(x):
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        with tape.stop_recording():
            z = y * y
        w = z * x
    assert tape.gradient(y, x).item() == 6.0
    assert tape.gradient(z, x) is None
    assert tape.gradient(w, x).item() == 81.0


def test_variables_read_while_recording_is_stopped():
    a = fg.Variable(2.0)
    with fg.GradientTape() as tape:
        with tape.stop_recording():
            a * 5.0
        assert tape.watched_variables() == ()
        y = a * 3.0
    assert tape.gradient(y, a).item() == 3.0


@pytest.mark.filterwarnings("ignore::fgrad.errors.NoGradientWarning")
def test_a_gradient_while_recording_is_stopped(x):
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        with tape.stop_recording():
            first = tape.gradient(y, x)
        z = y * x
    assert first.item() == 6.0
    assert tape.gradient(first, x) is None
    assert tape.gradient(z, x).item() == 27.0
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        with tape.stop_recording():
            assert tape.gradient(y, x).item() == 6.0
        assert type(np.asarray(y * x)) is np.ndarray  # the tape was used up, so it has not gone on


def test_stop_recording_where_nothing_is_recorded(x):
    with pytest.raises(RuntimeError, match="Trying to stop recording a tape which is not recording"):
        with fg.GradientTape().stop_recording():
            pass
    tape, y = squared(x)
    with pytest.raises(ValueError, match="Tape is not recording"):
        with tape.stop_recording():
            pass
    with tape, tape.stop_recording():
        with pytest.raises(ValueError, match="Tape is not recording"):
            with tape.stop_recording():
                pass
    assert tape.gradient(y, x).item() == 6.0


def test_an_exception_while_recording_is_stopped(x):
    with fg.GradientTape() as tape:
        tape.watch(x)
        with pytest.raises(KeyError, match="stop"), tape.stop_recording():
            raise KeyError("stop")
        y = x * x
    assert tape.gradient(y, x).item() == 6.0


@pytest.mark.filterwarnings("ignore::fgrad.errors.NoGradientWarning")
def test_reset(x):
    a = fg.Variable(2.0)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x * a
        tape.reset()
        assert tape.watched_variables() == ()
        z = x * 5.0
        tape.watch(x)
        u = x * 7.0
    assert plain(tape.gradient(u, [x, a])) == [7.0, None]
    assert plain(tape.gradient([y, z], [x, a])) == [None, None]
    with pytest.raises(ValueError, match="Tape is not recording"):
        tape.reset()


# Nested tapes


def _placed(x, innermost, watch_all):
    """Take three derivatives of x^5 with tapes, each gradient in one of the two places that keep it recorded."""
    with fg.GradientTape() as t1:
        t1.watch(x)
        with fg.GradientTape() as t2:
            if watch_all:
                t2.watch(x)
            with fg.GradientTape() as t3:
                if watch_all:
                    t3.watch(x)
                y = x * x * x * x * x
                if innermost[1]:
                    first = t3.gradient(y, x)
            if not innermost[1]:
                first = t3.gradient(y, x)
            if innermost[0]:
                second = t2.gradient(first, x)
        if not innermost[0]:
            second = t2.gradient(first, x)
    return first, second, t1.gradient(second, x)


@pytest.mark.parametrize("places", list(itertools.product([False, True], repeat=2)))
def test_three_nested_tapes(x, places):
    assert plain(_placed(x, places, watch_all=True)) == (405.0, 540.0, 540.0)


@pytest.mark.parametrize("persistent", list(itertools.product([False, True], repeat=2)))
@pytest.mark.parametrize("inside", [False, True])
def test_two_nested_tapes(x, inside, persistent):
    with fg.GradientTape(persistent=persistent[0]) as outer:
        outer.watch(x)
        with fg.GradientTape(persistent=persistent[1]) as inner:
            inner.watch(x)
            y = x * x * x
            if inside:
                first = inner.gradient(y, x)
        if not inside:
            first = inner.gradient(y, x)
    assert first.item() == 27.0
    assert outer.gradient(first, x).item() == 18.0


def test_the_order_of_watching_does_not_matter(x):
    with fg.GradientTape() as outer, fg.GradientTape() as inner:
        inner.watch(x)
        outer.watch(x)
        y = x * x * x
        first = inner.gradient(y, x)
        assert first.item() == 27.0
    assert outer.gradient(first, x).item() == 18.0


@pytest.mark.filterwarnings("ignore::fgrad.errors.NoGradientWarning")
def test_an_inner_gradient_taken_after_the_outer_block(x):
    with fg.GradientTape() as outer:
        outer.watch(x)
        with fg.GradientTape() as inner:
            inner.watch(x)
            y = x * x * x
    first = inner.gradient(y, x)
    assert first.item() == 27.0
    assert outer.gradient(first, x) is None


@pytest.mark.filterwarnings("ignore::fgrad.errors.NoGradientWarning")
def test_only_one_of_two_tapes_watches(x):
    with fg.GradientTape() as outer:
        outer.watch(x)
        with fg.GradientTape() as inner:
            y = x * x * x
        assert inner.gradient(y, x) is None
    assert outer.gradient(y, x).item() == 27.0
    x = fg.constant(3.0)
    with fg.GradientTape() as outer:
        with fg.GradientTape() as inner:
            inner.watch(x)
            y = x * x * x
        assert inner.gradient(y, x).item() == 27.0
    assert outer.gradient(y, x) is None


def test_both_tapes_give_the_first_derivative(x):
    with fg.GradientTape() as outer:
        outer.watch(x)
        with fg.GradientTape() as inner:
            inner.watch(x)
            y = x * x
        z = y * x
    assert inner.gradient(y, x).item() == 6.0
    assert outer.gradient(z, x).item() == 27.0


def test_a_tape_inside_that_is_left_alone(x):
    with fg.GradientTape() as outer:
        outer.watch(x)
        with fg.GradientTape() as inner:
            inner.watch(x)
            y = x * x
        inner.gradient(y, x)
        del inner
        z = y * x
    assert outer.gradient(z, [x])[0].item() == 27.0


def test_nested_tapes_on_variables():
    w = fg.Variable(3.0)
    with fg.GradientTape() as t1:
        with fg.GradientTape() as t2:
            with fg.GradientTape() as t3:
                y = w**5
            first = t3.gradient(y, w)
        second = t2.gradient(first, w)
    assert plain((first, second, t1.gradient(second, w))) == (405.0, 540.0, 540.0)


def test_mixed_second_derivatives():
    x, y = fg.constant(2.0), fg.constant(3.0)
    with fg.GradientTape() as outer:
        outer.watch([x, y])
        with fg.GradientTape() as inner:
            inner.watch([x, y])
            f = x**3 * y - x * y**2
        gx, gy = inner.gradient(f, [x, y])
    assert plain(outer.gradient([gx, gy], [x, y], output_gradients=[1.0, 0.0])) == [36.0, 6.0]


# Tapes that are not nested


def test_interleaved_tapes(x):
    first, second = fg.GradientTape(), fg.GradientTape()
    first.__enter__()
    first.watch(x)
    second.__enter__()
    second.watch(x)
    y = x * x * x
    first.__exit__(None, None, None)
    z = y * x
    second.__exit__(None, None, None)
    assert first.gradient(y, x).item() == 27.0
    assert second.gradient(z, x).item() == 108.0


@pytest.mark.filterwarnings("ignore::fgrad.errors.NoGradientWarning")
def test_interleaved_tapes_of_the_second_order(x):
    early, late = fg.GradientTape(persistent=True), fg.GradientTape()
    early.__enter__()
    early.watch(x)
    late.__enter__()
    late.watch(x)
    y = x * x * x
    early.__exit__(None, None, None)
    slope = early.gradient(y, x)  # the tape that is still open works above it, and sees a constant
    assert slope.item() == 27.0
    late.__exit__(None, None, None)
    assert late.gradient(slope, x) is None


def test_interleaved_tapes_on_variables():
    w = fg.Variable(3.0)
    first, second = fg.GradientTape(), fg.GradientTape()
    first.__enter__()
    a = w * w
    second.__enter__()
    b = a * w
    first.__exit__(None, None, None)
    c = b * w
    second.__exit__(None, None, None)
    assert first.gradient(b, w).item() == 27.0
    # The second tape has seen w twice, and a as a constant.
    assert second.gradient(c, w).item() == 2 * 9.0 * 3.0


@pytest.mark.filterwarnings("ignore::fgrad.errors.NoGradientWarning")
def test_one_tensor_in_the_hands_of_two_tapes_one_after_the_other(x):
    early, y = squared(x, persistent=True)
    late, z = squared(x, persistent=True)
    assert late.gradient(z, x).item() == 6.0
    assert early.gradient(y, x).item() == 6.0
    assert early.gradient(z, x) is None
    assert late.gradient(y, x) is None


def test_layers_do_not_pile_up_in_a_tensor_that_is_large_again_and_again(x):
    previous = None
    for _ in range(50):
        with fg.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        if previous is not None:
            assert previous[0].gradient(previous[1], x).item() == 6.0
        previous = tape, y  # the last tape still answers while the next one is watching
    count, layer = 0, x
    while type(layer) is fg.Tensor:
        count, layer = count + 1, layer._payload
    assert count <= 2


def test_an_early_tape_that_watches_after_a_later_one(x):
    """The layer of the early one lies below, so the later one works above it when it is entered again."""
    early, late = fg.GradientTape(), fg.GradientTape()
    with early:
        with late:
            late.watch(x)
        early.watch(x)
        with late:
            y = x**3
        first = late.gradient(y, x)
    assert first.item() == 27.0
    assert early.gradient(first, x).item() == 18.0


# Among other transforms


@pytest.mark.parametrize("derivative", [fg.grad, along])
def test_a_derivative_inside_a_tape(x, derivative):
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = x * derivative(lambda t: t * t * x)(x)  # x * 2 x^2
    assert y.item() == 54.0
    assert tape.gradient(y, x).item() == 54.0  # 6 x^2


@pytest.mark.parametrize("derivative", [fg.grad, along])
@pytest.mark.parametrize("persistent", [False, True])
def test_a_tape_inside_a_derivative(derivative, persistent):
    def slope(x):
        with fg.GradientTape(persistent=persistent) as tape:
            tape.watch(x)
            y = x * x * x
        return tape.gradient(y, x)

    assert plain(slope(fg.constant(3.0))) == 27.0
    assert plain(derivative(slope)(3.0)) == 18.0
    assert plain(derivative(derivative(slope))(3.0)) == 6.0


def test_gradients_functions_inside_a_tape(x):
    y = fg.constant(2.0)
    with fg.GradientTape() as tape:
        tape.watch([x, y])
        gx, gy = fg.gradients_function(lambda a, b: a * a * b)(x, y)
    assert plain((gx, gy)) == (12.0, 9.0)
    assert plain(tape.gradient([gx, gy], [x, y])) == [2 * 2.0 + 2 * 3.0, 2 * 3.0]


def test_implicit_gradients_and_a_tape_inside_each_other():
    w = fg.Variable(3.0)
    cube = fg.implicit_gradients(lambda: w**3)
    with fg.GradientTape() as tape:
        first = cube()[0][0]
    assert first.item() == 27.0
    assert tape.gradient(first, w).item() == 18.0

    def slope():
        with fg.GradientTape() as tape:
            y = w**3
        return tape.gradient(y, w)

    value, ((gradient, _),) = fg.implicit_value_and_gradients(slope)()
    assert (value.item(), gradient.item()) == (27.0, 18.0)


def test_a_pullback_of_outside_used_inside_a_tape(x):
    _, pullback = fg.vjp(lambda t: t * t, 5.0)
    with fg.GradientTape() as tape:
        tape.watch(x)
        (y,) = pullback(x * x)
    assert y.item() == 90.0
    assert tape.gradient(y, x).item() == 60.0


def test_a_traced_argument_watched_by_a_tape_of_outside():
    with fg.GradientTape() as tape:

        def f(t):
            tape.watch(t)  # a tape that is older than the trace of t
            return t * t * t

        gradient = fg.grad(f)(3.0)
    assert gradient.item() == 27.0


# gradients


def test_gradients():
    a = fg.constant(1.0)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(a)
        b = 2 * a
        c = a + b
        assert plain(fg.gradients(c, [a, b])) == [3.0, 1.0]
    gradients = fg.gradients(c, [a, b])
    assert type(gradients) is list
    assert plain(gradients) == [3.0, 1.0]
    for stop in ([a, b], [b], b, (b,)):
        assert plain(fg.gradients(c, [a, b], stop_gradients=stop)) == [1.0, 1.0]
    assert plain(fg.gradients(c, [a, b], stop_gradients=[a])) == [3.0, 1.0]
    assert plain(fg.gradients(c, a)) == [3.0]
    assert plain(fg.gradients([b, c], (a, a))) == [5.0, 5.0]
    assert tape.gradient(c, a).item() == 3.0


def test_gradients_stop_at_what_is_named(x):
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = y * y
    assert plain(fg.gradients(z, [x, y], stop_gradients=y)) == [None, 18.0]
    assert plain(fg.gradients(z, [x, y], stop_gradients=y, unconnected_gradients=ZERO)) == [0.0, 18.0]
    assert plain(fg.gradients(z, [x, y], stop_gradients=[])) == [108.0, 18.0]


def test_gradients_in_the_block_of_a_single_use_tape(x):
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        assert plain(fg.gradients(y, x)) == [6.0]
        z = y * x
        assert plain(fg.gradients(z, x)) == [27.0]
    assert tape.gradient(z, x).item() == 27.0


def test_gradients_with_weights(x):
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = x * np.array([1.0, 10.0])
    assert plain(fg.gradients([y, z], x, grad_ys=[10.0, np.array([1.0, 2.0])])) == [60.0 + 21.0]
    assert plain(fg.gradients([y, z], x, grad_ys=[None, np.array([1.0, 2.0])])) == [6.0 + 21.0]
    assert plain(fg.gradients(z, x, grad_ys=np.array([1.0, 2.0]))) == [21.0]
    assert plain(fg.gradients(y, x, grad_ys=[2.0])) == [12.0]
    with pytest.raises(ValueError, match="grad_ys has 1 entries for 2"):
        fg.gradients([y, z], x, grad_ys=[1.0])
    with pytest.raises(ValueError, match="grad_ys has 2 entries for 1"):
        fg.gradients(y, x, grad_ys=[1.0, 2.0])
    with pytest.raises(ValueError, match=r"shape \(3,\).*shape \(2,\)"):
        fg.gradients(z, x, grad_ys=[np.ones(3)])


def test_gradients_of_what_is_unconnected(x):
    other, late = fg.constant(np.float32(1)), fg.constant(2.0)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch([x, other])
        y = x * x
        after = y * 2.0
    assert plain(fg.gradients(y, [x, other, after, late])) == [6.0, None, None, None]
    zeros = fg.gradients(y, [other, late], unconnected_gradients=ZERO)
    assert plain(zeros) == [0.0, 0.0]
    assert zeros[0].dtype == np.float32
    assert fg.gradients(y, []) == []
    assert fg.gradients([], x) == [None]
    with pytest.raises(ValueError, match="unconnected_gradients: 'bogus'"):
        fg.gradients(y, x, unconnected_gradients="bogus")


def test_gradients_by_variables():
    w = fg.Variable(3.0)
    with fg.GradientTape(persistent=True):
        y = w * w
        assert plain(fg.gradients(y, w)) == [6.0]


def test_gradients_without_a_record(x):
    with pytest.raises(RuntimeError, match="no open or persistent tape has recorded ys"):
        fg.gradients(x * x, x)
    tape, y = squared(x)
    tape.gradient(y, x)
    with pytest.raises(RuntimeError, match="no open or persistent tape has recorded ys"):
        fg.gradients(y, x)


def test_gradients_of_something_else(x):
    tape, y = squared(x, persistent=True)
    with pytest.raises(TypeError, match="ys must be a Tensor"):
        fg.gradients(None, x)
    with pytest.raises(TypeError, match="xs must be a Tensor"):
        fg.gradients(y, 3.0)
    with pytest.raises(TypeError, match="stop_gradients must be a Tensor"):
        fg.gradients(y, x, stop_gradients=[1.0])
    assert tape.gradient(y, x).item() == 6.0


def test_gradients_of_gradients_in_the_block(x):
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x * x
        (first,) = fg.gradients(y, x)
        (second,) = fg.gradients(first, x)
    assert plain((first, second)) == (27.0, 18.0)
    assert plain(fg.gradients(second, x)) == [6.0]


def test_gradients_asks_the_tape_that_was_started_last(x):
    with fg.GradientTape() as outer:
        outer.watch(x)
        with fg.GradientTape() as inner:
            inner.watch(x)
            y = x * x * x
            (first,) = fg.gradients(y, x)
    assert first.item() == 27.0
    assert outer.gradient(first, x).item() == 18.0
    assert inner.gradient(y, x).item() == 27.0


def test_gradients_on_one_given_tape(x):
    """The inner part of `gradients`, which does not look for the tape."""
    with fg.GradientTape() as outer:
        outer.watch(x)
        with fg.GradientTape() as inner:
            inner.watch(x)
            y = x * x
            z = y * y
        late = z * x
        assert plain(gradients_on(inner, [z], [x, y])) == [108.0, 18.0]
        assert plain(gradients_on(inner, [late], [x])) == [None]
        assert plain(gradients_on(outer, [late], [x])) == [5 * 81.0]
        assert plain(gradients_on(inner, [y, z], [x], [10.0, None])) == [168.0]
        assert plain(gradients_on(inner, [z], [x, y], None, [y], ZERO)) == [0.0, 18.0]
        assert plain(gradients_on(inner, [], [x])) == [None]
        with pytest.raises(ValueError, match="grad_ys has 1 entries for 2"):
            gradients_on(inner, [y, z], [x], [1.0])
    assert inner.gradient(z, x).item() == 108.0  # it was not used up


@pytest.mark.filterwarnings("ignore::fgrad.errors.NoGradientWarning")
def test_a_variable_that_is_the_target_without_having_been_used():
    w, fixed = fg.Variable(3.0), fg.Variable(3.0, trainable=False)
    with fg.GradientTape(persistent=True) as tape:
        pass
    assert tape.gradient(w, w).item() == 1.0
    assert tape.gradient(fixed, fixed) is None
    fg.optimizers.GradientDescent(0.5).minimize(lambda: w)
    assert w.numpy() == 2.5


def test_a_source_that_was_assigned_to_since_comes_with_a_warning():
    x = fg.constant([3.0, 4.0])
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    x[0] = 5.0
    with pytest.warns(NoGradientWarning, match="is None: the tape watched it, and it has been assigned to since"):
        assert tape.gradient(y, x) is None


def test_sources_that_can_have_no_gradient_come_with_a_warning(x):
    w, steps, other = fg.Variable(2.0, name="w"), fg.Variable(3, name="steps"), fg.constant(4.0)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * w * other
        z = other * 2.0
    with pytest.warns(NoGradientWarning, match="the variable 'steps' is None: it has dtype int64.*3.0 for 3") as caught:
        assert tape.gradient(y, [w, steps])[1] is None
    assert [each.filename for each in caught] == [__file__]
    with pytest.warns(
        NoGradientWarning, match=r"the source\['c'\] is None: the tape does not watch it. Call tape.watch"
    ):
        assert tape.gradient(y, {"c": other, "x": x})["c"] is None
    with pytest.warns(NoGradientWarning, match="the source is None: the tape does not watch it") as caught:
        assert tape.jacobian(y, other) is None
    assert [each.filename for each in caught] == [__file__]
    with pytest.warns(
        NoGradientWarning,
        match=r"is None: it was computed, or watched, only after the target.*gradient\(target, sources\)",
    ):
        assert tape.gradient(w, y) is None
    for target, source in ((z, x), (x**2, w), (fg.constant(1.0), {"w": w, "x": x})):
        with pytest.warns(NoGradientWarning, match="every gradient is None: the target does not depend") as caught:
            assert set(plain(leaves_and_nones(tape.gradient(target, source)))) == {None}
        assert len(caught) == 1


@pytest.mark.filterwarnings("error")
def test_sources_of_which_the_target_is_independent_come_without_a_warning(x):
    unread, fixed = fg.Variable(2.0), fg.Variable(2.0, trainable=False)
    other = fg.constant(4.0)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch([x, other])
        y = x * fixed
    assert tape.gradient(y, [unread, fixed, other]) == [None] * 3
    assert plain(tape.gradient(fg.constant(1.0), [x, fg.constant(2.0)], unconnected_gradients=ZERO)) == [0.0, 0.0]
    stranger = fg.constant(1.0)
    with tf.GradientTape(persistent=True) as silent:
        y = fg.Variable(2.0) * stranger
    assert silent.gradient(y, stranger) is None
    assert silent.gradient(stranger, fg.Variable(3)) is None


def test_what_cannot_be_watched_is_refused_before_the_state_of_the_tape():
    with pytest.raises(errors.WatchError, match="Passed in object"):
        fg.GradientTape().watch(np.ones(2))
    with pytest.raises(errors.TapeError, match="never entered"):
        fg.GradientTape().watch(fg.constant(1.0))


def test_jacobians_of_examples_that_are_none_come_with_a_warning():
    x, other = fg.constant([[1.0, 2.0]]), fg.constant([[3.0, 4.0]])
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * other
    assert tape.batch_jacobian(y, x).shape == (1, 2, 2)
    with pytest.warns(NoGradientWarning, match="the source is None: the tape does not watch it") as caught:
        assert tape.batch_jacobian(y, other) is None
    assert [each.filename for each in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not tape.batch_jacobian(y, other, unconnected_gradients=ZERO).numpy().any()
