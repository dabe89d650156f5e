"""The tape's `jacobian` and `batch_jacobian`."""

import numpy as np
import pytest

import fgrad as fg
from fgrad import errors

U = np.array([1.0, 2.0])
M = np.array([[1.0, 2.0], [3.0, 4.0]])
ZERO = fg.UnconnectedGradients.ZERO


def squared(value, persistent=False):
    x = fg.constant(value)
    with fg.GradientTape(persistent) as tape:
        tape.watch(x)
        y = x * x
    return tape, x, y


def test_jacobian():
    tape, u, y = squared(U)
    assert tape.jacobian(y, u).tolist() == [[2.0, 0.0], [0.0, 4.0]]
    with pytest.raises(errors.TapeError, match="can only be used to compute one set of gradients"):
        tape.jacobian(y, u)


def test_shapes_and_structure():
    tape, m, y = squared(M, persistent=True)
    expected = np.einsum("ik,jl,ij->ijkl", np.eye(2), np.eye(2), 2 * M)
    assert tape.jacobian(y, m).tolist() == expected.tolist()
    found = tape.jacobian(y, {"a": m, "b": [m]})
    assert found["b"][0].tolist() == expected.tolist()
    tape, x, y = squared(3.0)
    assert tape.jacobian(y, x).item() == 6.0
    tape, x, y = squared(np.ones((0,)))
    assert tape.jacobian(y, x).shape == (0, 0)


def test_unconnected():
    tape, u, y = squared(U, persistent=True)
    other = fg.constant(np.ones(3))
    with pytest.warns(errors.NoGradientWarning, match="the tape does not watch it"):
        assert tape.jacobian(y, other) is None
    with pytest.warns(errors.NoGradientWarning, match="the tape does not watch it"):
        assert tape.jacobian(y, [u, other])[1] is None
    assert tape.jacobian(y, other, unconnected_gradients=ZERO).tolist() == np.zeros((2, 3)).tolist()
    tape, _, y = squared(M, persistent=True)
    other = fg.constant(np.ones((2, 3)))
    with pytest.warns(errors.NoGradientWarning, match="the tape does not watch it"):
        assert tape.batch_jacobian(y, other) is None
    assert tape.batch_jacobian(y, other, unconnected_gradients=ZERO).tolist() == np.zeros((2, 2, 3)).tolist()


def test_variables():
    w = fg.Variable(U)
    with fg.GradientTape() as tape:
        y = np.stack([w[0] * w[1], w[0]])
    assert tape.jacobian(y, w).tolist() == [[2.0, 1.0], [1.0, 0.0]]


def test_a_hessian_by_two_tapes():
    x = fg.constant(U)
    with fg.GradientTape() as outer:
        outer.watch(x)
        with fg.GradientTape() as inner:
            inner.watch(x)
            y = x[0] ** 2 * x[1]
        slope = inner.gradient(y, x)
    assert outer.jacobian(slope, x).tolist() == [[4.0, 2.0], [2.0, 0.0]]


def test_a_jacobian_inside_the_block_is_recorded():
    x = fg.constant(U)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x**3
        total = np.sum(tape.jacobian(y, x))
    assert tape.gradient(total, x).tolist() == (6 * U).tolist()
    with fg.GradientTape() as outer:
        outer.watch(x)
        with fg.GradientTape() as inner:
            inner.watch(x)
            y = x**3
        total = np.sum(inner.jacobian(y, x))
    assert outer.gradient(total, x).tolist() == (6 * U).tolist()


def test_batch_jacobian():
    tape, m, y = squared(M)
    assert tape.batch_jacobian(y, m).tolist() == [[[2.0, 0.0], [0.0, 4.0]], [[6.0, 0.0], [0.0, 8.0]]]
    x = fg.constant(M)
    weights = np.arange(6.0).reshape(2, 3)
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = np.tanh(x @ weights)
    expected = np.cosh(M @ weights)[:, :, None] ** -2 * weights.T  # 1 - tanh**2 has lost digits
    np.testing.assert_allclose(tape.batch_jacobian(y, x), expected, rtol=1e-13)


def test_bad_input():
    tape, u, y = squared(U, persistent=True)
    with pytest.raises(errors.SourceError, match="a Jacobian needs one Tensor or Variable as target, not"):
        tape.jacobian([y], u)
    with pytest.raises(errors.SourceError, match="sources must be a Tensor, a Variable or a container"):
        tape.jacobian(y, 3.0)
    with pytest.raises(errors.SourceError, match="batch_jacobian takes one Tensor or Variable as source"):
        tape.batch_jacobian(y, [u])
    with pytest.raises(errors.ShapeError, match=r"the target has shape \(2,\) and must have rank at least 2"):
        tape.batch_jacobian(y, u)
    tape, m, y = squared(M, persistent=True)
    with pytest.raises(errors.ShapeError, match="Need first dimension of target shape"):
        tape.batch_jacobian(y, fg.constant(np.ones((3, 2))))
    with pytest.raises(errors.ParameterError, match="Unknown value for unconnected_gradients: 'bogus'"):
        tape.jacobian(y, m, unconnected_gradients="bogus")
    with pytest.raises(errors.TapeError, match="never entered"):
        fg.GradientTape().jacobian(y, m)


def test_a_batch_jacobian_of_no_rows():
    x = fg.constant(np.ones((0, 2)))
    with fg.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    assert tape.batch_jacobian(y, x).shape == (0, 2, 2)
