"""Programs as NumPy's users write them, with views, buffers and writes in place: fgrad's answers are those of the plain
run, and the derivatives those of its differences. What cannot be followed is refused."""

# ruff: noqa: N806  (a matrix may be A)

import functools

import numpy as np
import pytest
from helpers import naming

import fgrad as fg
from fgrad import errors

PROGRAMS = {}
REFUSED = {}


def program(x):
    """Enter a function of `x` that returns a number in the table of programs."""

    def enter(function):
        assert function.__name__ not in PROGRAMS
        PROGRAMS[function.__name__] = function, x
        return function

    return enter


def refused(x, error, *words, by_numpy=False):
    """Enter a program that raises `error` with these words, as the plain run does where `by_numpy`."""

    def enter(function):
        assert function.__name__ not in REFUSED
        REFUSED[function.__name__] = function, x, error, words, by_numpy
        return function

    return enter


def mix(a):
    """A number in which every element counts in its own way, to first and second order."""
    k = np.arange(1.0, a.size + 1).reshape(a.shape)
    return np.sum(k * a * (1.0 + 0.3 * a))


V3 = np.array([0.6, -1.1, 1.7])
V4 = np.array([0.5, 1.2, -0.7, 0.9])
V5 = np.array([0.7, 1.3, 0.4, -0.6, 1.1])
V6 = np.array([0.9, -0.4, 1.5, 0.3, -1.2, 0.7])
V8 = np.array([0.4, 1.1, -0.6, 0.8, 1.4, -0.9, 0.3, 0.7])
P4 = np.array([0.8, 1.5, 0.6, 1.2])  # positive
P6 = np.array([0.8, 1.5, 0.6, 1.2, 2.0, 0.4])
M22 = np.array([[1.3, 0.4], [-0.6, 0.9]])
M23 = np.array([[0.7, -1.2, 0.4], [1.1, 0.5, -0.8]])
M33 = np.array([[2.1, 0.4, -0.5], [0.3, 1.7, 0.6], [-0.4, 0.8, 1.9]])
M34 = np.array([[0.9, 0.2, -0.7, 1.1], [0.4, 1.3, 0.6, -0.2], [-0.5, 0.8, 1.6, 0.3]])
D1 = np.array([-1.0, 0.5, 1.5, 2.5, -0.5, 3.0])  # data of programs

# Views


@program(M23)
def item_of_a_row(x):
    A = x * 1.0
    A[0][1] = 5 * A[1][0]
    A[1][2] *= A[0][1]
    return mix(A)


@program(M33)
def row_of_the_argument(x):
    row = x[1]
    row -= 2 * x[0] * x[2]
    return mix(x)


@program(M33)
def first_of_each_row_is_zero(x):
    A = np.sin(x)
    for row in A:
        row[0] = 0
    return mix(A)


@program(M33)
def rows_of_the_argument_normalized(x):
    for row in x:
        row /= np.sqrt(np.sum(row**2))
    return mix(x)


@program(M23)
def rows_numbered_and_scaled(x):
    A = x * 1.0
    for i, row in enumerate(A):
        row *= i + 1
        row[i] = row[i + 1] ** 2
    return mix(A)


@program(M23)
def pairs_of_rows(x):
    A, B = x * 1.0, x**2
    for a, b in zip(A, B, strict=True):
        a += b
        b[1:] = a[:-1]
    return mix(A) + mix(B)


@program(V5)
def tail_doubled(x):
    y = x * 1.0
    v = y[1:]
    v *= 2
    return mix(y)


@program(V5)
def tail_of_the_argument_doubled(x):
    v = x[1:]
    v *= 2
    v[0] = v[1] * x[0]
    return mix(x)


@program(M33)
def column_through_the_transpose(x):
    A = x * 1.0
    A.T[0] = x[1] ** 2
    A.T[1, 2] = 3.0
    return mix(A)


@program(V6)
def row_of_a_reshaped_buffer(x):
    y = np.cos(x)
    y.reshape(2, 3)[1] = 7
    y.reshape(3, 2)[0] *= y[5]
    return mix(y)


@program(V6)
def argument_seen_as_a_matrix(x):
    A = x.reshape(2, 3)
    A[1] += A[0] ** 2
    A[:, 0] = 2 * A[:, 2]
    return mix(x)


@program(M33)
def item_of_the_raveled(x):
    A = x * 2.0
    A.ravel()[4] = 0
    np.ravel(A)[1] *= A[2, 2]
    A.reshape(-1)[5] = A[0, 0]
    return mix(A)


@program(M33)
def raveled_transpose_is_a_copy(x):
    A = x * 2.0
    flat = np.ravel(A.T)
    flat[4] = 0
    flat *= 3
    A.T.reshape(-1)[2] = 100.0
    A.flatten()[0] = 50.0
    return mix(A) + mix(flat)


@program(V6)
def halves_multiplied(x):
    y = x * 1.0
    a, b = np.split(y, 2)
    a *= b
    b += np.sin(a)
    return mix(y)


@program(V5)
def parts_of_uneven_length(x):
    y = x**2
    for part in np.array_split(y, 3):
        part -= part.mean()
        part[0] += x[0]
    return mix(y)


@program(M34)
def parts_side_by_side(x):
    A = x * 1.0
    left, right = np.hsplit(A, 2)
    left[:] = right * left
    right[0] = 0
    return mix(A)


@program(M34)
def parts_on_top_of_each_other(x):
    A = x * 1.0
    top, rest = np.vsplit(A, [1])
    top += rest.sum(axis=0)
    rest *= top
    return mix(A)


@program(M34)
def parts_by_columns(x):
    A = x * 1.0
    a, b, c = np.split(A, [1, 3], axis=1)
    b *= a
    c[:, 0] = b[:, 1] * c[:, 0]
    return mix(A)


@program(V4)
def imaginary_part_written(x):
    z = x + 1j * x**2
    z.imag[:] = np.sin(x)
    z.imag[1] *= x[0]
    return mix((z * z).real) + mix(z.imag)


@program(V4)
def real_part_scaled(x):
    z = np.exp(1j * x)
    z.real[1:] *= 3
    z.real = z.real + z.imag
    z.real[0] = x[1]
    return mix(np.abs(z) ** 2)


@program(V4)
def parts_read_after_the_whole_changed(x):
    z = x * (1.0 + 2.0j)
    re, im = z.real, z.imag
    z *= 1j
    z[0] = x[1] - 1j * x[2]
    return mix(re * im)


def normalize(v):
    v /= np.linalg.norm(v)


def shift_to_mean_zero(v):
    v -= v.mean()
    return v


@program(V4)
def normalized_by_a_helper(x):
    y = x * 3.0
    normalize(y)
    return mix(y)


@program(M33)
def columns_normalized_by_a_helper(x):
    A = x * 1.0
    for j in range(3):
        normalize(A[:, j])
        shift_to_mean_zero(A[j])
    return mix(A)


@program(V4)
def argument_changed_by_a_helper(x):
    shift_to_mean_zero(x)
    normalize(x[1:])
    return mix(x)


@program(V4)
def two_names_of_one_array(x):
    u = x * 1.0
    v = u
    v += 1
    v[0] = u[1] * u[2]
    return mix(u)


@program(V4)
def second_name_of_the_argument(x):
    y = x
    y *= x
    return mix(x) + x[0]


@program(V5)
def view_read_after_the_base_changed(x):
    y = x * 1.0
    v = y[1:4]
    y *= y
    y[2] = x[0]
    return mix(v)


@program(V5)
def base_bound_anew_leaves_the_view(x):
    y = x * 1.0
    v = y[1:4]
    y = y * 3.0
    y[2] = 0.0
    return mix(v) + mix(y)


@program(V5)
def views_of_one_base(x):
    y = x * 1.0
    even, odd, back = y[::2], y[1::2], y[::-1]
    even += 2 * x[1]
    odd *= even[:2]
    back[0] = odd[0] * back[1]
    return mix(even) + mix(odd) + mix(back)


@program(V8)
def view_of_a_view(x):
    y = np.tanh(x)
    inner = y[1:][::2]
    inner[0] = x[7] ** 2
    inner[1:] *= 4
    return mix(y)


@program(V8)
def view_in_the_middle_written(x):
    y = x * 1.0
    middle = y[2:7]
    inner = middle[1:4]
    middle *= 2
    inner += middle[0] * y[0]
    y[3] = middle[4] * inner[2]
    return mix(y) + mix(middle) + mix(inner)


@program(V8)
def view_through_many_shapes(x):
    y = x * 1.0
    corner = y.reshape(2, 2, 2).transpose(2, 0, 1)[1][::-1]
    corner *= corner
    y[5] += x[0]
    return mix(y) + mix(corner)


@program(V6)
def view_kept_over_a_rebinding(x):
    y = x * 1.0
    tail = y[3:]
    y = np.append(y, x[0])
    tail *= 5.0
    return mix(y) + mix(tail)


@program(M23)
def transposes_read_after_write(x):
    A = x * 1.0
    t, s, m = np.transpose(A), np.swapaxes(A, 0, 1), np.moveaxis(A, 0, -1)
    A[0, 1] = 3 * A[1, 0]
    t[2] *= 2
    s[0, 0] = m[1, 1] ** 2
    return mix(t) + 2 * mix(s) + 3 * mix(m) + mix(A)


@program(M23)
def flips_read_after_write(x):
    A = x * 1.0
    up, left, both = np.flipud(A), np.fliplr(A), np.flip(A)
    A[0] *= A[1]
    up[0, 0] = x[0, 0] ** 2
    left[1] += 1
    both[0, 2] = 0.5
    return mix(up) + mix(left) + mix(both)


@program(V4)
def reversed_view_written(x):
    y = x * 1.0
    r = y[::-1]
    r[:2] = x[:2] * x[2:]
    r[::2] += 1.0
    return mix(y)


@program(V4)
def axes_added_and_removed(x):
    y = x * 1.0
    column, row, flat = y[:, np.newaxis], np.expand_dims(y, 0), np.squeeze(y.reshape(1, 4, 1))
    column[1] = x[0] * 2
    row[0, 2] *= x[1]
    flat[3] -= x[2] ** 2
    return mix(column) + mix(row) + mix(flat) + mix(y)


@program(V4)
def at_least_two_axes(x):
    y = x * 1.0
    Y = np.atleast_2d(y)
    Y[0, 1:3] = Y[0, :2] ** 2
    z = np.atleast_1d(y)
    z[0] = 2.0
    return mix(y) + mix(Y)


@program(V3)
def broadcast_view_read_after_write(x):
    y = x * 1.0
    wide = np.broadcast_to(y, (2, 3))
    y[1] = x[0] * x[2]
    a, _ = np.broadcast_arrays(y, np.ones((2, 1)))
    return mix(wide) + mix(a)


@program(M33)
def diagonal_read_after_write(x):
    A = x * 1.0
    d, e = np.diagonal(A), A.diagonal(1)
    A[1, 1] = x[0, 1] ** 2
    A[0] *= 2
    return mix(d) + mix(e)


@program(M33)
def diagonal_written_through_einsum(x):
    A = x * 1.0
    np.einsum("ii->i", A)[:] = x[0] * x[1]
    np.einsum("ij->ji", A)[0] += 1.0
    return mix(A)


@program(M33)
def diagonal_filled(x):
    A = x * 1.0
    np.fill_diagonal(A, x[0] * x[2])
    B = x.T * 2.0
    np.fill_diagonal(B, 1.0)
    return mix(A) + mix(B)


@program(M33)
def diagonal_by_strided_slices(x):
    A = x * 1.0
    A.ravel()[::4] = x[2] ** 2
    A.reshape(-1)[2:7:2] += 1.0
    return mix(A)


@program(M33)
def diagonal_by_flat(x):
    A = x * 1.0
    A.flat[::4] = x[1]
    A.flat[5] = A.flat[3] * 2
    A.T.flat[[1, 6]] = x[0, :2]
    return mix(A)


@program(M33)
def diagonal_by_two_index_arrays(x):
    A = x * 1.0
    i = np.arange(3)
    A[i, i] += np.sum(A, axis=1) ** 2
    A[np.tril_indices(3, -1)] = 0.0
    A[np.triu_indices(3, 1)] *= x[0, 0]
    return mix(A)


@program(V5)
def fancy_index_is_a_copy(x):
    y = x * 1.0
    picked = y[[0, 2, 2]]
    picked *= 10
    y[2] = 0.0
    return mix(y) + mix(picked)


@program(V5)
def mask_is_a_copy(x):
    y = x * 1.0
    positive = y[y > 0]
    positive -= x[0]
    positive[0] = 5.0
    return mix(y) + mix(positive)


@program(V5)
def copies_are_copies(x):
    y = x * 1.0
    a, b, c = y.copy(), np.copy(y[1:]), np.array(y)
    a += 1
    b *= y[:-1]
    c[0] = x[4]
    y[1] = 0.0
    return mix(y) + mix(a) + mix(b) + mix(c)


@program(V5)
def copy_of_the_argument(x):
    y = x.copy()
    y[1:] -= x[:-1]
    y **= 2
    return mix(y) + mix(x)


@program(V5)
def item_is_a_number(x):
    s = x[0]
    s += 1
    t = x[1]
    x[1] = 3 * t * s
    t *= 2
    return mix(x) + s * t


@program(V5)
def slice_of_one_is_a_view(x):
    s = x[:1]
    s += x[1]
    return mix(x) + s[0] ** 2


@program(M33)
def rows_swapped(x):
    A = x * 1.0
    A[0], A[1] = A[1].copy(), A[0].copy()
    return mix(A)


@program(M33)
def rows_swapped_wrongly(x):
    A = x * 1.0
    A[0], A[1] = A[1], A[0]
    return mix(A)


@program(M33)
def rows_swapped_by_index(x):
    A = x * 1.0
    A[[0, 2]] = A[[2, 0]]
    A[:, [0, 1]] = A[:, [1, 0]]
    return mix(A)


@program(M33)
def rows_swapped_with_a_temporary(x):
    A = x * 1.0
    kept, lost = A[0].copy(), A[1]
    A[0] = A[2]
    A[1] = A[0]
    A[2] = kept * lost
    return mix(A)


@program(V4)
def contents_exchanged_wrongly(x):
    a, b = x * 1.0, x**2
    a[:], b[:] = b, a
    return mix(a) + 2 * mix(b)


@program(V4)
def items_exchanged(x):
    y = x * 1.0
    y[0], y[3] = y[3], y[0]
    x[1], x[2] = x[2], x[1]
    return mix(y) + mix(x * y)


@program(V5)
def overlapping_slices_shifted(x):
    y = x * 1.0
    y[1:] = y[:-1]
    y[:-1] += y[1:]
    y[::-1] -= 0.5 * y
    return mix(y)


@program(V4)
def nested_functions_share_a_buffer(x):
    state = x * 1.0

    def kick(i, amount):
        state[i] += amount
        return state

    first = kick(0, x[3])
    second = kick(2, first[0] ** 2)
    return mix(first) + mix(second)


@program(V4)
def buffer_in_an_object(x):
    class Model:
        def __init__(self, w):
            self.w = w * 1.0
            self.bias = self.w[-1:]

        def step(self, rate):
            self.w -= rate * self.w**2
            self.bias += 1

    model = Model(x)
    for _ in range(3):
        model.step(0.1)
    return mix(model.w) * model.bias[0]


@program(V4)
def views_in_a_dict(x):
    flat = x * 1.0
    params = {"W": flat[:2], "b": flat[2:]}
    for name, part in params.items():
        part *= len(name) + 1.5
    params["W"] += params["b"]  # the dictionary's item is changed in place
    flat += 1
    return mix(params["W"] * params["b"])


@program(M23)
def quarter_turns_read_after_write(x):
    A = x * 1.0
    turned, rolled = np.rot90(A), np.roll(A, 1)
    A[0, 2] = A[1, 0] ** 2
    turned[0] *= 2
    return mix(turned) + mix(rolled) + mix(A)


@program(M23)
def orders_of_reshaping(x):
    A = x * 1.0
    copy, view = A.reshape(3, 2, order="F"), A.T.reshape(6, order="F")
    copy *= 5
    view[1:3] *= A[1, 0]
    A.T.ravel(order="F")[5] = x[0, 0]
    return mix(A) + mix(copy) + mix(view)


@program(V5)
def windows_read_after_write(x):
    y = x * 1.0
    windows = np.lib.stride_tricks.sliding_window_view(y, 3)
    y[2] = x[0] * x[1]
    return mix(windows) + mix(windows.mean(axis=1))


@program(M33)
def list_of_rows(x):
    A = x * 1.0
    rows = list(A)
    rows[0], rows[2] = rows[2], rows[0]
    rows[1] -= 0.5 * rows[0]
    rows[2][:2] = rows[1][1:] ** 2
    return mix(A) + mix(np.stack(rows))


@program(V3)
def one_buffer_three_times_in_a_list(x):
    rows = [np.zeros_like(x)] * 3
    for i in range(3):
        rows[i] += x[i] * x
    same = other = x * 1.0
    other *= same
    return mix(np.stack(rows)) + mix(same)


@program(V4)
def type_kept_without_a_copy(x):
    copy, same = x.astype(float), x.astype(float, copy=False)
    same *= 2.0
    copy[1] = same[0] ** 2
    return mix(x) + mix(copy)


# Writes by index, by ufuncs and by NumPy's functions


@program(V4)
def items_added_up(x):
    A = np.zeros_like(x, shape=(2, 2))
    for k in range(4):
        A[k % 2, k // 2] += x[k]
        A[0, k // 2] -= x[k] * x[k - 1]
    return mix(A)


@program(V4)
def repeated_index_counts_once(x):
    y = x * 1.0
    y[[0, 0, 1, 0]] += x
    y[np.array([2, 2])] *= x[:2]
    return mix(y)


@program(V5)
def repeated_index_last_one_wins(x):
    y = x * 0.0
    y[[1, 1, 3, 3, 0]] = x**2
    return mix(y) + mix(y[[3, 3, 1]])


@program(V5)
def add_at(x):
    y = x * 1.0
    np.add.at(y, [0, 0, 3, 0], x[1:] ** 2)
    np.add.at(y, (np.array([2, 2]),), 1.5)
    return mix(y)


@program(V5)
def multiply_at(x):
    y = np.ones_like(x)
    np.multiply.at(y, [1, 1, 1, 4, 0], x)
    return mix(y)


@program(V5)
def subtract_at(x):
    A = np.zeros_like(x, shape=(2, 3))
    np.subtract.at(A, ([0, 1, 0, 0, 1], [2, 0, 2, 1, 0]), np.exp(x))
    return mix(A)


@program(V5)
def histogram_with_weights_by_hand(x):
    bins = np.array([0, 2, 1, 2, 0])
    sums = np.zeros_like(x, shape=3)
    np.add.at(sums, bins, x**2)
    return mix(np.sqrt(sums))


@program(V5)
def put_and_take(x):
    y = x * 1.0
    np.put(y, [0, 3], x[1:3] * x[0])
    y.put([4], 2.0)
    return mix(y) + np.take(y, 3) ** 2


@program(V5)
def place_and_putmask(x):
    y, z = x * 1.0, x * 1.0
    np.place(y, x > 1, x[:2] * x[2])
    np.putmask(z, x < 0.5, x**3)
    return mix(y) + mix(z)


@program(V5)
def copied_where(x):
    y = x * 1.0
    np.copyto(y, np.sin(x), where=x > 0.5)
    z = np.empty_like(x)
    np.copyto(z, y * x)
    np.copyto(z[1:3], 4.0)
    return mix(y) + mix(z)


@program(V5)
def put_along_an_axis(x):
    A = np.stack([x, x**2])
    np.put_along_axis(A, np.argmax(A, axis=1)[:, None], x[0] * x[1], axis=1)
    return mix(A)


@program(V5)
def filled_with_a_traced_number(x):
    y = x * 1.0
    y[1:3].fill(x[0] * x[4])
    z = np.empty_like(x)
    z.fill(x[1])
    w = np.full_like(x, 2.0)
    w[::2] = z[::2] * y[::2]
    return mix(y) + mix(z) + mix(w)


@program(V5)
def sorted_in_place(x):
    y = x * 1.0
    y.sort()
    A = np.stack([x, -(x**2)])
    A.sort(axis=0)
    A[0].sort()
    return mix(y) + mix(A)


@program(V5)
def sorted_through_a_view(x):
    y = x * 1.0
    y[1:].sort()
    y[::-1].sort()
    return mix(y * x)


@program(V4)
def ufuncs_into_a_buffer(x):
    y, z = np.empty_like(x), x * 0.0
    np.add(x, 1.5, out=y)
    np.multiply(y, 2, out=y)
    np.sin(y, out=z)
    np.subtract(y, z, y)
    np.power(x, 2, out=(z,))
    return mix(y) + mix(z)


@program(V4)
def ufunc_into_its_own_operand(x):
    y = x * 1.0
    r = np.multiply(y, y, out=y)
    r += 1
    np.divide(x, y, out=x)
    return mix(y) + mix(x)


@program(V4)
def cumulative_into_a_buffer(x):
    y, z = x * 1.0, np.empty_like(x)
    np.cumsum(y, out=y)
    np.cumprod(x + y, out=z)
    np.add.accumulate(z, out=y)
    return mix(y) + mix(z)


@program(V4)
def clipped_in_place(x):
    y = x * 1.0
    np.clip(y, 0, 1, out=y)
    z = x * 2.0
    z.clip(-1.0, 2.0, out=z)
    np.maximum(z, 0.1, out=z)
    return mix(y * x) + mix(z)


@program(M22)
def products_into_a_buffer(x):
    A, B = np.empty_like(x), np.empty_like(x)
    np.dot(x, x, out=A)
    np.matmul(A, x.T, out=B)
    np.einsum("ij,jk->ik", A, B, out=A)
    return mix(A) + mix(B)


@program(V6)
def ufunc_into_a_slice(x):
    y = x * 1.0
    np.exp(x[:3], out=y[1:4])
    np.multiply(y[::2], x[:3], out=y[::2])
    np.negative(y[:2], out=y[-2:])
    return mix(y)


@program(M34)
def sums_into_a_row(x):
    A = x * 1.0
    np.sum(x**2, axis=0, out=A[0])
    np.mean(x, axis=1, out=A[:, 2])
    x.max(axis=1, out=A[:, 0])
    return mix(A)


@program(V5)
def ufunc_where(x):
    y = x * 1.0
    np.sqrt(x, out=y, where=x > 0)
    np.add(y, x[0], out=y, where=np.array([True, False, True, False, True]))
    z = np.divide(1.0, x, out=np.zeros_like(x), where=x < 1)
    return mix(y) + mix(z)


@program(V5)
def masked_assignments(x):
    y = x * 1.0
    y[y > 1] = 1.0
    y[x < 0] *= x[0]
    y[(x > 0) & (x < 0.5)] = x[0] ** 2
    y[x > 1.2] -= x[x > 1.2] ** 2
    return mix(y)


@program(V5)
def masks_of_a_matrix(x):
    A = np.outer(x, x)
    A[A < 0] = 0.0
    A[x > 1] += 1.0
    A[:, x < 0] = x[:, None] ** 2
    A[np.eye(5, dtype=bool)] *= x
    return mix(A)


@program(V3)
def outer_grids_filled(x):
    A = np.empty_like(x, shape=(3, 3))
    A[np.ix_([0, 2], [0, 2])] = np.outer(x[:2], x[1:])
    A[1], A[:, 1] = x, x**2
    A[..., 2] += 1.0
    return mix(A)


@program(V3)
def augmented_operators(x):
    y = x * 1.0
    y += x
    y -= 0.5
    y *= y
    y /= 10.0
    y **= 2
    y += [0.1, 0.2, 0.3]
    M = np.outer(y, x)
    M @= M.T * 0.1
    return mix(y) + mix(M)


@program(P4)
def remainders_in_place(x):
    y = x * 2.0
    y %= 0.7
    z = x * 3.0
    z //= 0.7
    return mix(y) + mix(z * x)


@program(M23)
def broadcasting_into_rows(x):
    A = x * 1.0
    A -= A.mean(axis=0)
    A[:] = A * x[:, :1]
    A[...] += x[0]
    A[:, 1:] = 2.0 * A[:, :1]
    return mix(A)


@program(M23)
def writes_of_lists_and_numbers(x):
    A = x * 1.0
    A[0] = [1, 2, 3]
    A[1, ::2] = x[0, 1], x[0, 0] * x[1, 1]
    A[:, 1] = [x[0, 0], 4.0]
    return mix(A)


@program(V4)
def pieces_joined_into_a_buffer(x):
    A, b = np.empty_like(x, shape=(2, 4)), np.empty_like(x, shape=6)
    np.stack([x, x**2], out=A)
    np.concatenate([A[0], A[1, :2]], out=b)
    np.take(x, [3, 0, 0, 1], out=A[1])
    np.outer(x[:2], b[:4], out=A)
    return mix(A) + mix(b)


@program(V5)
def part_of_the_order_in_place(x):
    y = x**2
    y.partition(2)
    y[:2] = 0.0
    y[3:] = y[2]
    return mix(y)


@program(P4)
def invalid_values_replaced_in_place(x):
    y = np.log(x)
    y[x < 0.7] = np.nan
    np.nan_to_num(y, copy=False, nan=0.5)
    z = np.sqrt(x)
    z[np.isfinite(z) & (z > 1)] = y[0]
    return mix(y) + mix(z)


# Plain arrays that are used again for something else


@program(V4)
def mask_used_again(x):
    chosen, s = np.zeros(4, dtype=bool), 0.0
    for i in range(4):
        chosen[i] = True
        s = s + np.sum(np.where(chosen, x**2, np.sin(x))) * np.sum(x[chosen])
    return s


@program(V6)
def batches_drawn_into_one_buffer(x):
    rng, rows, loss = np.random.default_rng(3), np.empty(3, dtype=int), 0.0
    for _ in range(4):
        rows[:] = rng.choice(6, size=3, replace=False)
        loss = loss + np.sum((x[rows] - D1[rows]) ** 2 * x[0])
    return loss


@program(V3)
def basis_vector_used_again(x):
    e, J = np.zeros(3), []
    for i in range(3):
        e[i] = 1.0
        J.append(np.sin(x * e) @ (x + e))
        e[i] = 0.0
    return mix(np.stack(J))


@program(V3)
def design_row_used_again(x):
    row, s = np.ones(3), 0.0
    for t in np.linspace(-1, 1, 5):
        row[1:] = t, t**2
        s = s + (row @ x - np.exp(t)) ** 2
    return s


@program(V4)
def weights_decay_in_place(x):
    w, s = np.ones(4), 0.0
    for _ in range(4):
        s = s + np.sum(w * np.tanh(x)) ** 2
        w *= 0.5
        w[0] += 1
    return s


@program(V3)
def rotating_plain_matrix(x):
    R, s = np.eye(3), 0.0
    for _ in range(3):
        s = s + mix(R @ x) + x @ R @ x
        R[[0, 1, 2]] = R[[1, 2, 0]]
    return s


@program(V4)
def noise_written_into_one_buffer(x):
    rng, noise, samples = np.random.default_rng(1), np.empty(4), []
    for _ in range(3):
        rng.standard_normal(out=noise)
        samples.append(np.exp(0.3 * x * noise))
    return mix(np.mean(samples[0] * samples[1] + samples[2], axis=0, keepdims=True))


@program(V4)
def index_pairs_used_again(x):
    pair, s = [0, 0], 0.0
    for i, j in np.ndindex(4, 4):
        pair[:] = i, j
        s = s + np.prod(x[pair]) / (1 + i)
    return s


@program(V6)
def order_shuffled_in_place(x):
    rng, order, loss = np.random.default_rng(4), np.arange(6), 0.0
    for _ in range(2):
        rng.shuffle(order)
        for rows in order.reshape(3, 2):
            loss = loss + np.prod(x[rows] - D1[rows]) * x[order[0]]
    return loss


@program(V5)
def running_window_of_plain_data(x):
    window, s = np.zeros(5), 0.0
    for d in D1:
        window[:-1] = window[1:]
        window[-1] = d
        s = s + np.tanh(window @ x) ** 2
    return s


# Arrays of traced numbers


@program(V3)
def rotation_matrix(x):
    t, v = x[0], x[1:]
    w = np.array([[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]]) @ v
    return w[0] ** 2 + 3 * w[1]


@program(V3)
def rotations_multiplied(x):
    def about_z(t):
        return np.array([[np.cos(t), -np.sin(t), 0.0], [np.sin(t), np.cos(t), 0.0], [0.0, 0.0, 1.0]])

    def about_x(t):
        return np.array([[1, 0, 0], [0, np.cos(t), -np.sin(t)], [0, np.sin(t), np.cos(t)]])

    return mix(about_z(x[0]) @ about_x(x[1]) @ about_z(x[2]))


@program(np.array([0.8, -0.3]))
def pendulum_by_runge_kutta(x):
    def f(y):
        return np.array([y[1], -np.sin(y[0])])

    y, h = x, 0.2
    for _ in range(4):
        k1 = f(y)
        k2 = f(y + h / 2 * k1)
        k3 = f(y + h / 2 * k2)
        k4 = f(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y[0] ** 2 + 2 * y[1]


@program(np.array([1.2, 0.7, 0.5]))
def predators_and_prey_by_euler(x):
    a, *state = x
    y = np.array(state)
    for _ in range(5):
        y += 0.1 * np.array([y[0] * (a - y[1]), y[1] * (y[0] - 1)])
    return y[0] * y[1] + y[0]


@program(V4)
def array_of_a_list_of_results(x):
    results = []
    for i in range(4):
        results.append(x[i] ** 2 * x[i - 1])  # noqa: PERF401
    y = np.array(results)
    return mix(y) + y.max()


@program(V4)
def array_of_a_comprehension(x):
    y = np.array([np.exp(-t * t) for t in x])
    return np.sum(y * np.arange(4)) + y[1] * y[-1]


@program(V4)
def asarray_of_the_argument(x):
    y = np.asarray(x)
    return mix(np.asarray(y * 2.0) ** 2)


@program(V4)
def array_of_the_argument_changed_in_place(x):
    y = np.array(x)
    y *= 2.0
    y[1:] += y[0] ** 2
    return mix(y)


@program(V3)
def full_of_a_traced_number(x):
    A = np.full((2, 2), x[0])
    return np.sum(A * np.array([[1.0, 2.0], [3.0, 4.0]]) * x[1]) + A[0, 1] ** 2


@program(V3)
def array_of_numbers_times_a_slice(x):
    return np.array([x[0], x[0] * x[1]]) @ x[:2] + x[1:] @ np.array([x[2], 1.0])


@program(V3)
def norm_of_an_array_of_numbers(x):
    return np.linalg.norm(np.array([x[0] * x[1], x[2], 1.0])) + np.linalg.norm([x[0], x[1]])


@program(V3)
def array_of_nested_comprehensions(x):
    products = np.array([[v * w for v in x if v > -2.0] for w in x])
    return np.sum(np.array([np.sin(v) for v in x]) @ products)


@program(V3)
def reductions_of_arrays_of_numbers(x):
    y = np.array([x[0] ** 2, x[1], x[0] * x[2]])
    return np.max(y) + 2 * np.min(y) * y.sum() + np.prod(y) + np.sum(y**2)


@program(V4)
def comparisons_of_arrays_of_numbers(x):
    y = np.array([x[0], x[1] ** 2, x[2], x[3]])
    s = mix(y[y > 0.6]) + np.sum(np.where(y < x, y, x) * x)
    return s + 2.0 * np.argmax(y) * y[0] if np.any(y > 1) else s


@program(V3)
def arrays_of_numbers_joined(x):
    a, b = np.array([x[0], x[1] * x[2]]), np.array([x[2] ** 2])
    y = np.concatenate([a, b, x])
    return mix(y) + mix(np.hstack([b, a]))


@program(V3)
def einsum_of_arrays_of_numbers(x):
    A = np.array([[x[0], x[1]], [x[1], x[2]]])
    return np.einsum("ij,i,j", A, x[:2], np.array([x[2], 1.0])) + np.einsum("ii", A) ** 2


@program(V3)
def functions_of_arrays_of_numbers(x):
    y = np.array([x[0], x[1], x[0] * x[2]])
    return mix(np.sin(y)) + np.sum(np.exp(-y) * np.sqrt(1 + y**2)) + mix(np.tanh(y)[::-1])


@program(V3)
def arithmetic_of_arrays_of_numbers(x):
    a, b = np.array([x[0], x[1]]), np.array([x[2], x[0] ** 2])
    c = a * b + a / (2 + b**2) - 3 * b
    c += a
    return mix(c) + a @ b


@program(V4)
def parts_of_arrays_of_numbers(x):
    A = np.array([[x[0], x[1]], [x[2] ** 2, x[3]]])
    r = A[0] * A[:, 1]
    A[1, 0] = x[0] * x[3]
    A[0] += A[1]
    return mix(r) + mix(A) + A.sum() * A.T[0, 1] + mix(A.T) + mix(A.reshape(4)[1:])


@program(V4)
def columns_of_arrays_of_numbers(x):
    A = np.array([[t, t**2, 1.0] for t in x])
    return mix(A.T @ A) + mix(A.mean(axis=0)) + np.sum(A[:, :2] - x[:, None])


@program(V4)
def nested_lists(x):
    T = np.array([[[x[i] * x[j] for j in range(2)], [x[i], 1.0]] for i in range(4)])
    return np.sum(T * np.arange(16.0).reshape(4, 2, 2)) + T[0, 1, 0] * T.shape[0]


@program(M23)
def array_of_rows(x):
    A = np.array([x[1], x[0] * x[1], np.sin(x[0])])
    B = np.array(list(x))
    return mix(A) + mix(B @ A)


@program(V4)
def stacks_of_lists(x):
    a, b = x[:2], x[2:]
    A = np.vstack([a, b * a])
    B = np.column_stack([a, b])
    C = np.block([[A, B], [B.T, np.eye(2)]])
    C[0] *= C[1]
    return mix(A) + mix(B) + mix(C) + mix(np.stack([a, b], axis=1))


@program(V4)
def stack_of_numbers(x):
    y = np.stack([x[i] * x[3 - i] for i in range(4)])
    z = np.hstack([x[0], x[1] ** 2, 2.0])
    y[1:] *= z
    return mix(y)


@program(V3)
def jacobian_matrix_by_hand(x):
    r, t, z = x
    J = np.array([[np.cos(t), -r * np.sin(t), 0.0], [np.sin(t), r * np.cos(t), 0.0], [0.0, 0.0, z]])
    return J[0, 0] * (J[1, 1] * J[2, 2] - J[1, 2] * J[2, 1]) - J[0, 1] * J[1, 0] * J[2, 2] + mix(J)


@program(V3)
def covariance_from_parameters(x):
    a, b, rho = np.exp(x[0]), np.exp(x[1]), np.tanh(x[2])
    C = np.array([[a**2, rho * a * b], [rho * a * b, b**2]])
    d = np.array([0.5, -1.0])
    det = C[0, 0] * C[1, 1] - C[0, 1] ** 2
    return d @ np.array([[C[1, 1], -C[0, 1]], [-C[1, 0], C[0, 0]]]) @ d / det + np.log(det)


@program(V3)
def polynomial_from_a_list(x):
    c = np.array([1.0, x[0], x[1] * x[2]])
    t = np.linspace(0, 1, 4)
    return np.sum((np.vander(t, 3) @ c - np.cos(t)) ** 2)


@program(V4)
def dictionary_of_results(x):
    found = {name: x[i] ** (i + 1) for i, name in enumerate("abcd")}
    return mix(np.array(list(found.values()))) + max(found.values()) + sum(found.values())


@program(V3)
def vectors_of_two_points(x):
    p, q = np.array([x[0], x[1], 0.0]), np.array([1.0, x[2], x[0]])
    n = np.array([p[1] * q[2] - p[2] * q[1], p[2] * q[0] - p[0] * q[2], p[0] * q[1] - p[1] * q[0]])
    n /= np.sqrt(n @ n)
    return mix(n) + np.dot(p, q)


@program(V4)
def constants_and_traced_numbers(x):
    y = np.array([x[0], 2, 3.5, x[3]]) - np.array([1, x[1], x[2], 0])
    y[2] = 0.0
    return mix(np.abs(y)) + y.dot(x)


# Booleans and integers of traced values, which pick from plain arrays


@program(V6)
def plain_data_by_a_mask(x):
    return np.sum(D1[x > 0] * x[x > 0] ** 2) + np.sum(D1[~(x > 0)])


@program(np.array([0.13, 0.56, 0.87]))
def grid_by_searchsorted(x):
    grid = np.linspace(0, 1, 6)
    i = np.searchsorted(grid, x)
    left, right = grid[i - 1], grid[i]
    return np.sum((grid**2)[i] * (x - left) * (right - x)) + np.sum(left * x)


@program(np.array([1.4, 0.3, 2.6, 3.7]))
def table_by_floor(x):
    table = np.array([1.0, -2.0, 0.5, 3.0, 2.0])
    i = np.floor(x).astype(int)
    t = x - i
    return np.sum((1 - t) * table[i] + t * table[i + 1]) + mix(t**2)


@program(V4)
def one_hot_of_the_largest(x):
    return x @ np.eye(4)[np.argmax(x)] + np.sum(np.eye(4)[np.argsort(x)] @ x * np.arange(4.0) * x)


@program(V4)
def table_by_rank(x):
    table = np.array([1.0, 10.0, 100.0, 1000.0])
    rank = np.empty(4, dtype=int)
    rank[np.argsort(x)] = np.arange(4)
    return np.take(table, np.argsort(x)) @ x**2 / 100 + table[rank] @ x / 10


@program(V4)
def labels_written_into_a_plain_array(x):
    labels, counts = np.zeros(4), np.zeros(4, dtype=int)
    labels[:] = x > 0.7
    counts[1] = np.argmin(x)
    counts[2:] += x[2:] > 0
    return np.sum((x - labels) ** 2) + counts @ x


@program(V4)
def list_of_comparisons(x):
    chosen = np.array([v > 0.7 for v in x])
    return np.sum(x[chosen] ** 3) + chosen.sum() * x[0] + np.sum(np.where(chosen, D1[:4], x))


@program(V4)
def plain_weight_of_the_smallest(x):
    weights = np.array([3.0, 1.0, 4.0, 1.5])
    return weights[int(np.argmin(x))] * x[0] * x[1] + weights[np.argmax(x)] * np.min(x) ** 2


@program(V6)
def groups_by_digitize(x):
    group = np.digitize(x, [-0.8, 0.1, 1.0])
    return sum(np.sum(x[group == g]) ** 2 * (g + 1) for g in np.unique(group))


@program(V6)
def places_by_nonzero(x):
    (where,) = np.nonzero(x > 0.5)
    s = np.sum(x[where] * D1[where]) + len(where) * x[1]
    for i in np.flatnonzero(x < 0):
        s = s + i * x[i] ** 2
    return s


@program(V5)
def sign_changes_counted(x):
    changes = np.count_nonzero(np.sign(x[1:]) != np.sign(x[:-1]))
    steps = range(int(x[1] * 3))
    return changes * np.sum(x**2) + sum(x[i] * x[i + 1] for i in steps)


@program(V5)
def ties_broken_by_hand(x):
    order = sorted(range(5), key=lambda i: x[i])
    best = max(range(5), key=lambda i: x[i] * D1[i])
    return mix(x[order]) + x[best] ** 2


@program(np.array([0.3, 1.2, 2.3, 0.9]))
def rounded_and_nearest(x):
    levels = np.array([0.0, 1.0, 2.0])
    nearest = levels[np.argmin(np.abs(x[:, None] - levels), axis=1)]
    return np.sum((x - nearest) ** 2 * x) + np.sum(x * np.rint(x))


# Differential equations


@program(V6)
def heat_by_slices(x):
    u = x * 1.0
    for _ in range(5):
        u[1:-1] += 0.2 * (u[2:] - 2 * u[1:-1] + u[:-2])
        u[0], u[-1] = 0.0, u[-2]
    return mix(u**2)


@program(V6)
def heat_in_two_buffers(x):
    u, new = x * 1.0, np.empty_like(x)
    for _ in range(4):
        new[1:-1] = u[1:-1] + 0.05 * (u[2:] - 2 * u[1:-1] + u[:-2]) * u[1:-1]
        new[0], new[-1] = new[1], x[0]
        u, new = new, u
    return mix(u) + mix(new)


@program(M34)
def heat_in_the_plane(x):
    u = x * 1.0
    for _ in range(3):
        lap = np.zeros_like(u)
        lap[1:-1, 1:-1] = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        u += 0.1 * lap * u
    return mix(u)


@program(V6)
def wave_by_leapfrog(x):
    before, now = x * 1.0, x * 1.0
    for _ in range(4):
        after = np.zeros_like(now)
        after[1:-1] = 2 * now[1:-1] - before[1:-1] + 0.3 * (now[2:] - 2 * now[1:-1] + now[:-2])
        before[:] = now
        now[:] = after
    return mix(now**2 + before)


@program(V6)
def advection_upwind(x):
    u = x * 1.0
    for _ in range(4):
        u[1:] -= 0.1 * u[1:] * (u[1:] - u[:-1])
        u[0] = u[-1]
    return mix(u)


@program(V5)
def advection_by_roll(x):
    u = x.copy()
    for _ in range(3):
        u -= 0.25 * (np.roll(u, -1) - np.roll(u, 1)) * u
    return mix(u)


@program(np.array([1.0, 0.3, -0.2, 0.8]))
def leapfrog_in_place(x):
    q, p, dt = x[:2], x[2:], 0.1
    p -= dt / 2 * q**3
    for _ in range(4):
        q += dt * p
        p -= dt * q**3
    return 0.5 * np.sum(p**2) + 0.25 * np.sum(q**4) * q[0]


@program(np.array([0.9, 0.2, -0.4]))
def runge_kutta_table(x):
    k, c, y = np.zeros_like(x, shape=(4, 3)), [0.0, 0.5, 0.5, 1.0], x * 1.0
    for _ in range(3):
        for i in range(4):
            z = y + 0.1 * c[i] * k[i - 1] if i else y
            k[i] = z[1] * z[2], -z[0] * z[2], np.sin(z[0])
        y += 0.1 / 6 * (k[0] + 2 * k[1] + 2 * k[2] + k[3])
    return mix(y)


@program(np.array([1.0, 0.4]))
def trajectory_in_a_buffer(x):
    path = np.zeros_like(x, shape=(6, 2))
    path[0] = x
    for i in range(5):
        q, p = path[i]
        path[i + 1, 0] = q + 0.1 * p
        path[i + 1, 1] = p - 0.1 * np.sin(path[i + 1, 0])
    return mix(path)


@program(V4)
def adams_bashforth_with_history(x):
    def f(y):
        return np.array([y[1], -y[0], y[3] * y[0], -y[2]])

    y, slopes = x * 1.0, [f(x)]
    for _ in range(4):
        slopes.append(f(y))
        y = y + 0.1 * (1.5 * slopes[-1] - 0.5 * slopes[-2])
        slopes[:] = slopes[-2:]
    return mix(y)


@program(np.array([0.0, 0.2, 1.1, -0.1, 0.4, 1.3]))
def particles_with_pairwise_forces(x):
    q, F = x.reshape(3, 2), np.zeros_like(x, shape=(3, 2))
    for i in range(3):
        for j in range(i):
            d = q[i] - q[j]
            f = d / (0.1 + d @ d) ** 1.5
            F[i] += f
            F[j] -= f
    q += 0.05 * F
    return mix(F) + mix(x)


@program(np.array([0.1, 0.9, 0.5, -0.3]))
def spring_chain(x):
    pos, vel = x * 1.0, x * 0.0
    for _ in range(3):
        force = np.zeros_like(pos)
        stretch = np.diff(pos) - 0.3
        force[:-1] += stretch
        force[1:] -= stretch**3
        vel += 0.1 * force
        pos += 0.1 * vel
    return mix(pos * vel) + mix(pos)


# Linear algebra by hand


@program(M34[[1, 0, 2]])
def gauss_elimination(x):
    A = x * 1.0
    for k in range(3):
        p = k + np.argmax(np.abs(A[k:, k]))
        A[[k, p]] = A[[p, k]]
        for i in range(k + 1, 3):
            A[i] -= A[i, k] / A[k, k] * A[k]
    y = np.zeros_like(x[:, 0])
    for k in (2, 1, 0):
        y[k] = (A[k, 3] - A[k, k + 1 : 3] @ y[k + 1 :]) / A[k, k]
    return mix(y)


@program(M34[::-1])
def gauss_jordan_on_the_argument(x):
    for k in range(3):
        p = k + int(np.argmax(np.abs(x[k:, k])))
        if p != k:
            x[k], x[p] = x[p].copy(), x[k].copy()
        pivot = x[k]
        pivot /= pivot[k]
        for i, row in enumerate(x):
            if i != k:
                row -= row[k] * pivot
    return mix(x[:, 3])


@program(M33)
def inverse_beside_the_identity(x):
    A = np.hstack([x, np.eye(3)])
    for k in range(3):
        A[k] /= A[k, k]
        A[:k] -= A[:k, k : k + 1] * A[k]
        A[k + 1 :] -= A[k + 1 :, k, None] * A[k]
    return mix(A[:, 3:])


@program(M33)
def determinant_in_place(x):
    A, det = x.copy(), 1.0
    for k in range(3):
        det = det * A[k, k]
        A[k + 1 :, k:] -= np.outer(A[k + 1 :, k] / A[k, k], A[k, k:])
    return det**2 + det


@program(M33)
def lu_by_hand(x):
    U, L = x * 1.0, np.eye(3) + 0.0 * x
    for k in range(2):
        for i in range(k + 1, 3):
            L[i, k] = U[i, k] / U[k, k]
            U[i, k:] -= L[i, k] * U[k, k:]
    return mix(L) + mix(U)


@program(M33)
def lu_in_one_matrix(x):
    for k in range(3):
        x[k + 1 :, k] /= x[k, k]
        x[k + 1 :, k + 1 :] -= x[k + 1 :, k : k + 1] * x[k, k + 1 :]
    return mix(x)


@program(M33)
def cholesky_by_hand(x):
    A, L = x @ x.T + np.eye(3), np.zeros_like(x)
    for i in range(3):
        for j in range(i + 1):
            s = A[i, j] - np.dot(L[i, :j], L[j, :j])
            L[i, j] = np.sqrt(s) if i == j else s / L[j, j]
    return mix(L)


@program(np.array([2.1, 1.9, 2.5, 2.2, 0.6, -0.4, 0.5, 0.9]))
def thomas_algorithm(x):
    b, d = x[:4].copy(), x[4:].copy()
    a, c = np.array([0.0, 0.5, -0.3, 0.4]), np.array([0.2, 0.6, 0.1, 0.0])
    for i in range(1, 4):
        w = a[i] / b[i - 1]
        b[i] -= w * c[i - 1]
        d[i] -= w * d[i - 1]
    d[-1] /= b[-1]
    for i in (2, 1, 0):
        d[i] = (d[i] - c[i] * d[i + 1]) / b[i]
    return mix(d)


@program(M33)
def gram_schmidt_in_place(x):
    Q = x * 1.0
    for j in range(3):
        q = Q[:, j]
        for i in range(j):
            q -= (Q[:, i] @ q) * Q[:, i]
        q /= np.linalg.norm(q)
    return mix(Q)


@program(M33)
def gram_schmidt_of_rows(x):
    for i, v in enumerate(x):
        for u in x[:i]:
            v -= (u @ v) * u
        normalize(v)
    return mix(x)


@program(M33)
def householder_in_place(x):
    R = x.copy()
    for k in range(2):
        v = R[k:, k].copy()
        v[0] += np.sign(v[0]) * np.sqrt(v @ v)
        v /= np.sqrt(v @ v)
        R[k:, k:] -= 2 * np.outer(v, v @ R[k:, k:])
    return mix(np.triu(R))


@program(M33)
def power_iteration(x):
    v = np.ones_like(x[0])
    for _ in range(5):
        v = x @ v
        v /= np.linalg.norm(v)
    return v @ x @ v + mix(v)


@program(M33)
def qr_iterations(x):
    A = x + x.T
    for _ in range(3):
        Q, R = np.linalg.qr(A)
        A[:] = R @ Q
    return mix(np.diag(A))


@program(M22)
def givens_rotation_of_rows(x):
    A = np.vstack([x, x[0] * x[1]])
    for i, j in [(0, 1), (0, 2), (1, 2)]:
        r = np.hypot(A[i, i], A[j, i])
        c, s = A[i, i] / r, A[j, i] / r
        A[i], A[j] = c * A[i] + s * A[j], c * A[j] - s * A[i]
    return mix(A)


@program(M22)
def exponential_by_scaling_and_squaring(x):
    A = x / 8
    E, term = np.eye(2) + A, A.copy()
    for k in range(2, 8):
        term @= A / k
        E += term
    for _ in range(3):
        E = E @ E
    return mix(E)


@program(M22)
def matrix_power_by_squaring(x):
    result, base, n = np.eye(2), x * 0.8, 5
    while n:
        if n & 1:
            result = result @ base
        base @= base
        n >>= 1
    return mix(result)


@program(M33)
def jacobi_sweeps(x):
    A, b, y = x + 2 * np.eye(3), x[0], np.zeros_like(x[0])
    for _ in range(4):
        new = y * 0.0
        for i in range(3):
            new[i] = (b[i] - A[i] @ y + A[i, i] * y[i]) / A[i, i]
        y[:] = new
    return mix(y)


@program(V4)
def gauss_seidel_sweeps(x):
    A = np.array([[4.0, 1, 0, 0.5], [1, 5, 1, 0], [0, 1, 4, 1], [0.3, 0, 1, 3]])
    y = x * 0.0
    for _ in range(4):
        for i in range(4):
            y[i] = (x[i] - A[i, :i] @ y[:i] - A[i, i + 1 :] @ y[i + 1 :]) / A[i, i] + 0.1 * y[i] ** 2
    return mix(y)


@program(M34)
def over_relaxation_on_a_grid(x):
    u = x * 1.0
    for _ in range(3):
        for i, j in np.ndindex(1, 2):
            r = (u[i, j + 1] + u[i + 2, j + 1] + u[i + 1, j] + u[i + 1, j + 2]) / 4
            u[i + 1, j + 1] += 1.3 * (r - u[i + 1, j + 1]) * u[0, 0]
    return mix(u)


@program(V8)
def red_and_black_sweeps(x):
    u = x.copy()
    for _ in range(3):
        u[2:-1:2] = 0.5 * (u[1:-2:2] + u[3::2]) + 0.1 * u[2:-1:2] ** 2
        u[1:-1:2] = 0.5 * (u[:-2:2] + u[2::2])
    return mix(u)


@program(M34)
def checkerboard(x):
    u = x * 1.0
    u[::2, ::2] *= 2.0
    u[1::2, 1::2] += u[::2, 1::2].sum(axis=0)
    u[::2, 1::2] = u[::2, ::2] * u[1::2, 1::2]
    return mix(u)


@program(V4)
def conjugate_gradients(x):
    A = np.array([[4.0, 1, 0, 0.5], [1, 5, 1, 0], [0, 1, 4, 1], [0.5, 0, 1, 3]])
    y, r = np.zeros_like(x), x * 1.0
    p, rr = r.copy(), r @ r
    for _ in range(3):
        Ap = A @ p
        alpha = rr / (p @ Ap)
        y += alpha * p
        r -= alpha * Ap
        rr, old = r @ r, rr
        p *= rr / old
        p += r
    return mix(y)


@program(np.array([2.0, 0.7, 0.4, -0.3]))
def levinson_recursion(x):
    a, e = np.zeros_like(x), x[0]
    a[0] = 1.0
    for k in range(1, 4):
        g = -(a[:k] @ x[k:0:-1]) / e
        a[: k + 1] += g * a[: k + 1][::-1].copy()
        e *= 1 - g * g
    return mix(a) * e


@program(np.array([2.0, 0.7, 0.4, -0.3]))
def levinson_recursion_without_a_copy(x):
    a, e = np.zeros_like(x), x[0]
    a[0] = 1.0
    for k in range(1, 4):
        g = -(a[:k] @ x[k:0:-1]) / e
        a[: k + 1] += g * a[k::-1]
        e = e * (1 - g * g)
    return mix(a) * e


# Numerical analysis


@program(V5)
def horner(x):
    y = x[-1]
    for c in x[-2::-1]:
        y *= 0.7 + 0.1 * x[0]
        y += c
    return y**2


@program(V5)
def horner_over_points(x):
    t = np.linspace(-1, 1, 4)
    p = np.full_like(x, x[-1], shape=4)
    for c in x[::-1][1:]:
        p *= t
        p += c
    return mix(p**2)


@program(V4)
def simpson_rule(x):
    t = np.linspace(0, 2, 9)
    y = x[0] * np.sin(x[1] * t) + np.exp(x[2] * t) * x[3]
    w = np.ones(9)
    w[1:-1:2], w[2:-1:2] = 4, 2
    s = w @ y * (t[1] - t[0]) / 3
    w[:] = 0
    return s**2


@program(np.array([0.7, 1.3]))
def romberg_table(x):
    def f(t):
        return np.exp(-x[0] * t) * np.sin(x[1] * t)

    R = np.zeros_like(x, shape=(4, 4))
    for i in range(4):
        t = np.linspace(0, 1, 2**i + 1)
        y = f(t)
        R[i, 0] = (y.sum() - 0.5 * (y[0] + y[-1])) / 2**i
        for j in range(1, i + 1):
            R[i, j] = R[i, j - 1] + (R[i, j - 1] - R[i - 1, j - 1]) / (4**j - 1)
    return R[3, 3] ** 2 + R[2, 1]


@program(V4)
def neville_interpolation(x):
    t, y = np.array([0.0, 1.0, 2.5, 4.0]), x.copy()
    for k in range(1, 4):
        for i in range(4 - k):
            y[i] = ((1.7 - t[i + k]) * y[i] + (t[i] - 1.7) * y[i + 1]) / (t[i] - t[i + k]) + 0.1 * y[i] * y[i + 1]
    return y[0] ** 2 + mix(y)


@program(V4)
def divided_differences_in_place(x):
    t, c = np.array([0.0, 1.0, 2.5, 4.0]), x * 1.0
    for k in range(1, 4):
        c[k:] = (c[k:] - c[k - 1 : -1]) / (t[k:] - t[:-k])
    p = c[-1]
    for k in (2, 1, 0):
        p = p * (1.7 - t[k]) + c[k]
    return p**2 + mix(c)


@program(V5)
def convolution_by_slices(x):
    kernel, full = np.array([0.5, -1.0, 0.25]), np.zeros_like(x, shape=7)
    for k, w in enumerate(kernel):
        full[k : k + 5] += w * x
    same = np.zeros_like(x)
    for i, v in enumerate(x):
        same[i:] += v * x[: 5 - i]
    return mix(full**2) + mix(same)


@program(V6)
def moving_average(x):
    c = np.zeros_like(x, shape=7)
    np.cumsum(x, out=c[1:])
    m = (c[3:] - c[:-3]) / 3
    m[1:] -= m[:-1] ** 2
    return mix(m)


@program(V5)
def prefix_sums_by_loop(x):
    s, p = x * 1.0, x * 1.0
    for i in range(1, 5):
        s[i] += s[i - 1]
        p[i] *= p[i - 1]
    return mix(s) + mix(p)


@program(V8)
def prefix_sums_by_doubling(x):
    s = x * 1.0
    for d in (1, 2, 4):
        s[d:] = s[d:] + 0.9 * s[:-d]
    return mix(s**2)


@program(P4)
def cumulative_products(x):
    growth = 1 + 0.1 * x
    wealth = np.ones_like(x, shape=5)
    for i in range(4):
        wealth[i + 1] = wealth[i] * growth[i]
    wealth[1:] /= wealth[:-1].copy() + 1
    return mix(wealth)


@program(V4)
def vandermonde_by_loops(x):
    V = np.ones_like(x, shape=(4, 4))
    for j in range(1, 4):
        V[:, j] = V[:, j - 1] * x
    V.T[2] += 0.1
    return mix(V)


@program(P4)
def newton_for_square_roots(x):
    r = np.ones_like(x)
    for _ in range(5):
        r += x / r
        r /= 2
    return mix(r)


@program(P4)
def newton_until_it_is_close(x):
    r = x * 0.5 + 0.5
    while True:
        new = (r + x / r) / 2
        if np.max(np.abs(new - r)) < 1e-6:
            return mix(new)
        r[:] = new


@program(np.array([0.8, 0.5]))
def newton_for_a_system(x):
    y = np.ones_like(x)
    for _ in range(4):
        r = np.array([y[0] ** 2 + y[1] - 2 * x[0], y[0] * y[1] - x[1]])
        J = np.array([[2 * y[0], 1.0], [y[1], y[0]]])
        det = J[0, 0] * J[1, 1] - J[0, 1] * J[1, 0]
        y[0] -= (J[1, 1] * r[0] - J[0, 1] * r[1]) / det
        y[1] -= (J[0, 0] * r[1] - J[1, 0] * r[0]) / det
    return y[0] + y[1] ** 2


@program(np.array([2.2, 5.5]))
def bisection_then_newton(x):
    a, b = np.zeros_like(x), x * 1.0
    for _ in range(4):
        m = (a + b) / 2
        low = m**3 < x
        a[low] = m[low]
        b[~low] = m[~low]
    y = (a + b) / 2
    y -= (y**3 - x) / (3 * y**2)
    return mix(y)


@program(V4)
def finite_differences_of_a_buffer(x):
    y, g, h = x * 1.0, np.zeros_like(x), 0.5
    for i in range(4):
        kept = y[i]
        y[i] = kept + h
        up = np.sum(y**3) * y[0]
        y[i] = kept - h
        g[i] = (up - np.sum(y**3) * y[0]) / (2 * h)
        y[i] = kept
    return mix(g)


@program(V4)
def fixed_point_with_mixing(x):
    y = np.full_like(x, 0.5)
    for _ in range(6):
        new = np.cos(x * y)
        new -= y
        new *= 0.5
        y += new
    return mix(y)


@program(V5)
def trapezoid_increments(x):
    t = np.array([0.0, 0.3, 0.7, 1.2, 2.0])
    area = np.zeros_like(x)
    area[1:] = np.cumsum((x[1:] + x[:-1]) / 2 * np.diff(t))
    area *= area
    area[1:-1] -= area[2:] - area[:-2]
    return mix(area)


@program(V5)
def cubic_spline_slopes(x):
    s = np.empty_like(x)
    s[0], s[-1] = x[1] - x[0], x[-1] - x[-2]
    s[1:-1] = (x[2:] - x[:-2]) / 2
    t = np.array([0.25, 0.75])
    y = [(1 - t) * x[i] + t * x[i + 1] + t * (1 - t) * (s[i] - s[i + 1]) ** 2 for i in range(4)]
    return mix(np.concatenate(y))


# Signals and images


@program(V4)
def fft_by_butterflies(x):
    z = x[[0, 2, 1, 3]] + 0j
    for n in (2, 4):
        w = np.exp(-2j * np.pi * np.arange(n // 2) / n)
        for start in range(0, 4, n):
            even, odd = z[start : start + n // 2], z[start + n // 2 : start + n]
            t = w * odd
            odd[:] = even - t
            even += t
    return mix(np.abs(z) ** 2) + mix(z.imag)


@program(V4)
def fft_by_recursion_into_a_buffer(x):
    def transform(y, out):
        n = len(y)
        if n == 1:
            out[0] = y[0]
            return
        transform(y[::2], out[: n // 2])
        transform(y[1::2], out[n // 2 :])
        t = np.exp(-2j * np.pi * np.arange(n // 2) / n) * out[n // 2 :]
        out[n // 2 :] = out[: n // 2] - t
        out[: n // 2] += t

    z = np.zeros_like(x, dtype=complex)
    transform(x * x, z)
    return mix(z.real**2) + mix(z.imag)


@program(V6)
def spectrum_filtered_in_place(x):
    z = np.fft.rfft(x)
    z[2:] = 0
    z[1] *= 1j * x[0]
    y = np.fft.irfft(z, 6)
    y += x
    return mix(y**2)


@program(V8)
def haar_transform_in_place(x):
    y, n = x * 1.0, 8
    while n > 1:
        a, d = (y[:n:2] + y[1:n:2]) / 2, (y[:n:2] - y[1:n:2]) / 2
        n //= 2
        y[:n], y[n : 2 * n] = a, d * d
    return mix(y)


@program(V8)
def walsh_hadamard_in_place(x):
    y, h = x.copy(), 1
    while h < 8:
        for i in range(0, 8, 2 * h):
            for j in range(i, i + h):
                y[j], y[j + h] = y[j] + y[j + h], y[j] - y[j + h]
        h *= 2
    return mix(y**2) / 10


@program(V6)
def recursive_filter(x):
    y = np.zeros_like(x)
    for n in range(6):
        y[n] = x[n] + 0.5 * x[n - 1] if n else x[n]
        if n > 1:
            y[n] -= 0.3 * y[n - 2] * y[n - 1]
    return mix(y)


@program(V6)
def exponential_smoothing(x):
    level = np.empty_like(x)
    level[0] = x[0]
    alpha = 1 / (1 + np.exp(-x[1]))
    for t in range(1, 6):
        level[t] = alpha * x[t] + (1 - alpha) * level[t - 1]
    return np.sum((level[:-1] - x[1:]) ** 2)


@program(P6)
def holt_winters(x):
    level, trend, error = x[0], x[1] - x[0], 0.0
    for v in x[2:]:
        error += (v - level - trend) ** 2
        new = 0.6 * v + 0.4 * (level + trend)
        trend *= 0.7
        trend += 0.3 * (new - level)
        level = new
    return error


@program(V6)
def ring_buffer(x):
    ring, out = np.zeros_like(x, shape=3), x * 0.0
    for t in range(6):
        ring[t % 3] = x[t] * ring[(t - 1) % 3] + x[t]
        out[t] = ring.mean() + ring[(t + 1) % 3] ** 2
    return mix(out) + mix(ring)


@program(V6)
def delay_line(x):
    line, out = np.zeros_like(x[:3]), []
    for v in x:
        out.append(v + 0.6 * line[-1] * line[0])
        line[1:] = line[:-1].copy()
        line[0] = out[-1]
    return mix(np.array(out))


@program(V6)
def delay_line_without_a_copy(x):
    line, out = np.zeros_like(x[:3]), x * 0.0
    for t, v in enumerate(x):
        out[t] = v + 0.6 * line[-1] ** 2
        line[1:] = line[:-1]
        line[0] = out[t]
    return mix(out) + mix(line)


@program(M34)
def image_blurred_by_slices(x):
    out = x * 1.0
    out[1:-1] += x[2:] + x[:-2]
    out[:, 1:-1] += x[:, 2:] * x[:, :-2]
    out[1:-1, 1:-1] /= 5
    return mix(out)


@program(M34)
def image_blurred_onto_itself(x):
    x[1:-1] = (x[2:] + x[1:-1] + x[:-2]) / 3
    x[:, 1:-1] = (x[:, 2:] + x[:, :-2]) / 2
    x[0, :] = x[-1, ::-1]
    return mix(x**2)


@program(M23)
def image_padded_by_hand(x):
    p = np.zeros_like(x, shape=(4, 5))
    p[1:-1, 1:-1] = x
    p[0], p[-1] = p[1], p[-2]
    p[:, 0], p[:, -1] = p[:, 1], p[:, -2]
    gy = p[2:, 1:-1] - p[:-2, 1:-1]
    gx = p[1:-1, 2:] - p[1:-1, :-2]
    return mix(gx**2 + gy**2 * x)


@program(M34)
def pooled_maxima(x):
    out = np.zeros_like(x, shape=(3, 2))
    for i in range(3):
        for j in range(2):
            window = x[i : i + 2, 2 * j : 2 * j + 2]
            out[i, j] = window.max() * window.mean()
    return mix(out)


@program(V6)
def cellular_automaton_with_numbers(x):
    state, history = 1 / (1 + np.exp(-x)), np.zeros_like(x, shape=(4, 6))
    for t in range(4):
        history[t] = state
        left, right = np.roll(state, 1), np.roll(state, -1)
        state[:] = left + right - 2 * left * right * state
    return mix(history) + mix(state)


# Dynamic programming and probability


@program(V4)
def dynamic_time_warping(x):
    seen = np.array([0.2, 1.0, -0.3])
    D = np.zeros_like(x, shape=(5, 4))
    D[0, 1:], D[1:, 0] = 100.0, 100.0
    for i in range(1, 5):
        for j in range(1, 4):
            D[i, j] = (x[i - 1] - seen[j - 1]) ** 2 + min(D[i - 1, j], D[i, j - 1], D[i - 1, j - 1])
    return D[4, 3]


@program(V4)
def soft_time_warping(x):
    seen, D = np.array([0.2, 1.0, -0.3]), np.full_like(x, 30.0, shape=(5, 4))
    D[0, 0] = 0.0
    for i, j in np.ndindex(4, 3):
        ways = np.stack([D[i, j + 1], D[i + 1, j], D[i, j]])
        D[i + 1, j + 1] = (x[i] - seen[j]) ** 2 - np.log(np.sum(np.exp(-ways)))
    return D[-1, -1]


@program(M23)
def viterbi_path(x):
    score, back = x[:, 0].copy(), np.zeros((2, 3), dtype=int)
    for t in range(1, 3):
        ways = score[:, None] + np.array([[0.5, -0.2], [0.1, 0.3]]) * x[:, t]
        back[:, t] = np.argmax(ways, axis=0)
        score[:] = ways[back[:, t], [0, 1]]
    state = int(np.argmax(score))
    total = score[state] * 1.0
    for t in (2, 1):
        state = back[state, t]
        total += x[state, t - 1] ** 2
    return total


@program(M23)
def forward_algorithm(x):
    emit, step = np.exp(x), np.array([[0.7, 0.3], [0.4, 0.6]])
    alpha, loglik = np.empty_like(x), 0.0
    alpha[:, 0] = emit[:, 0] / 2
    for t in range(3):
        if t:
            alpha[:, t] = (alpha[:, t - 1] @ step) * emit[:, t]
        c = alpha[:, t].sum()
        alpha[:, t] /= c
        loglik += np.log(c)
    return loglik + mix(alpha)


@program(np.array([[0.0, 1.2, 2.9], [0.7, 0.0, 1.1], [1.9, 0.4, 0.0]]))
def soft_shortest_paths(x):
    D = x * 1.0
    for k in range(3):
        for i in range(3):
            for j in range(3):
                D[i, j] = -np.log(np.exp(-D[i, j]) + np.exp(-D[i, k] - D[k, j]))
    return mix(D)


@program(np.array([[0.5, 1.2, 2.9], [0.7, 0.6, 1.1], [1.9, 0.4, 0.3]]))
def shortest_paths_by_slices(x):
    D = x**2
    for k in range(3):
        np.minimum(D, D[:, k, None] + D[k], out=D)
    return mix(D)


@program(P4)
def knapsack_with_weights(x):
    best = np.zeros_like(x, shape=6)
    for value, size in zip(x, [2, 1, 3, 2], strict=True):
        for c in range(5, size - 1, -1):
            if best[c - size] + value > best[c]:
                best[c] = best[c - size] + value
    return mix(best)


@program(M22)
def markov_chain(x):
    P = np.exp(x)
    P /= P.sum(axis=1, keepdims=True)
    p = np.full_like(P[0], 0.5)
    for _ in range(4):
        p[:] = p @ P
    return mix(p) + mix(P @ P)


@program(np.array([0.5, 0.2, -0.3, 1.1]))
def kalman_filter(x):
    q, r = np.exp(x[0]), np.exp(x[1])
    F, H = np.array([[1.0, 0.5], [0.0, 1.0]]), np.array([1.0, 0.0])
    m, P = x[2:] * 1.0, np.eye(2) * r
    loss = 0.0
    for z in (0.3, 0.8, 1.9):
        m[:] = F @ m
        P[:] = F @ P @ F.T + q * np.eye(2)
        s = H @ P @ H + r
        K = P @ H / s
        innovation = z - H @ m
        m += K * innovation
        P -= np.outer(K, H @ P)
        loss += 0.5 * (innovation**2 / s + np.log(s))
    return loss + mix(m)


@program(V5)
def running_mean_and_variance(x):
    n, mean, m2 = 0, 0.0, 0.0
    for v in x:
        n += 1
        delta = v - mean
        mean += delta / n
        m2 += delta * (v - mean)
    return m2 / (n - 1) + mean**3


@program(M23)
def running_statistics_by_column(x):
    mean, var = np.zeros_like(x[0]), np.ones_like(x[0])
    for row in x:
        mean *= 0.9
        mean += 0.1 * row
        var += 0.1 * ((row - mean) ** 2 - var)
    return mix(mean) + mix(np.sqrt(var))


@program(V5)
def soft_ranks(x):
    R = np.zeros_like(x)
    for i in range(5):
        for j in range(5):
            if i != j:
                R[i] += 1 / (1 + np.exp(x[i] - x[j]))
    return mix(R)


@program(V4)
def softmax_in_place(x):
    e = x * 1.0
    e -= e.max()
    np.exp(e, out=e)
    e /= e.sum()
    return mix(e)


@program(M23)
def softmax_of_rows_in_place(x):
    e = x - x.max(axis=1, keepdims=True)
    np.exp(e, out=e)
    np.divide(e, e.sum(axis=1, keepdims=True), out=e)
    e[np.arange(2), [0, 2]] -= 1
    return mix(e**2)


@program(M34)
def batch_normalization_in_place(x):
    h = x * 1.0
    h -= h.mean(axis=0)
    h /= np.sqrt(h.var(axis=0) + 0.1)
    h *= x[0]
    h += 0.5
    np.maximum(h, 0.0, out=h)
    return mix(h)


# Learning


@program(V4)
def adam_by_hand(x):
    w, m, v = x * 1.0, np.zeros_like(x), np.zeros_like(x)
    for t in range(1, 5):
        g = 4 * w**3 - 0.6 * w
        m *= 0.9
        m += 0.1 * g
        v *= 0.99
        v += 0.01 * g**2
        w -= 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 0.1)
    return mix(w)


@program(V4)
def momentum_in_place(x):
    velocity = np.zeros_like(x)
    for _ in range(4):
        velocity *= 0.8
        velocity -= 0.1 * np.sin(x)
        x += velocity
    return mix(x)


@program(V6)
def network_trained_by_hand(x):
    W1, W2 = x[:4].reshape(2, 2), x[4:]
    data, targets = np.array([[0.5, -1.0], [1.5, 0.3], [-0.7, 0.8]]), np.array([1.0, -0.5, 0.2])
    loss = 0.0
    for inp, target in zip(data, targets, strict=True):
        h = np.tanh(inp @ W1)
        err = h @ W2 - target
        loss += err**2
        dh = err * W2 * (1 - h**2)
        W2 -= 0.1 * err * h
        W1 -= 0.1 * np.outer(inp, dh)
    return loss + mix(x)


@program(V6)
def backpropagation_in_buffers(x):
    acts, grads = np.zeros_like(x, shape=(3, 3)), np.zeros_like(x, shape=(2, 3))
    acts[0] = 0.5, -1.0, 0.8
    W = x.reshape(2, 3)
    for layer in range(2):
        np.tanh(W[layer] * acts[layer].sum() + acts[layer], out=acts[layer + 1])
    delta = acts[2] - 1.0
    for layer in (1, 0):
        delta *= 1 - acts[layer + 1] ** 2
        grads[layer] = delta * acts[layer].sum()
        delta = delta + np.sum(delta * W[layer])
    W -= 0.1 * grads
    return mix(W) + mix(grads)


@program(V4)
def recurrent_network(x):
    h, outputs = np.zeros_like(x[:2]), []
    W = np.array([[0.5, -0.3], [0.2, 0.8]])
    for inp in (1.0, -0.5, 0.3):
        h[:] = np.tanh(W @ h + inp * x[:2])
        outputs.append(h @ x[2:])
    return mix(np.array(outputs)) + mix(h)


@program(V4)
def states_kept_as_copies_and_as_names(x):
    h, names, copies = x * 1.0, [], []
    for _ in range(3):
        h *= 1.0 + 0.1 * h
        names.append(h)
        copies.append(h.copy())
    return mix(np.stack(names)) + mix(np.stack(copies))


@program(V4)
def replay_memory(x):
    rng, memory, value = np.random.default_rng(5), [], np.zeros_like(x)
    for step in range(6):
        state = step % 4
        memory.append((state, np.sin(x[state]), (state + 1) % 4))
        s, reward, new = memory[rng.integers(len(memory))]
        value[s] += 0.5 * (reward + 0.9 * value[new] - value[s])
    return mix(value)


@program(M23)
def temporal_differences_with_traces(x):
    value, trace = x[0] * 1.0, np.zeros_like(x[0])
    for s, new, reward in zip([0, 1, 2, 0], [1, 2, 0, 2], [*x[1], 0.5], strict=True):
        trace *= 0.7
        trace[s] += 1
        value += 0.3 * (reward + 0.9 * value[new] - value[s]) * trace
    return mix(value)


@program(np.array([0.1, 0.4, 1.6, 2.1, 0.2, 1.9]))
def k_means(x):
    centers = x[[0, 3]].copy()
    for _ in range(3):
        label = np.argmin(np.abs(x[:, None] - centers), axis=1)
        for k in range(2):
            centers[k] = x[label == k].mean()
    return np.sum((x - centers[label]) ** 2) + mix(centers)


@program(V4)
def perceptron_updates(x):
    w, data = x[:2] * 1.0, np.array([[1.0, 0.5], [-0.4, 1.2], [0.3, -1.5]])
    for row, sign in zip(data, (1, -1, 1), strict=True):
        if sign * (row @ w) < 1:
            w += 0.2 * sign * row * x[2:]
    return mix(w)


@program(V4)
def gradient_clipped_by_norm(x):
    g = 3 * x**2
    norm = np.sqrt(np.sum(g**2))
    if norm > 1:
        g *= 1 / norm
    g[np.abs(g) < 0.3] = 0.0
    w = x - 0.1 * g
    return mix(w)


@program(M23)
def attention_with_a_causal_mask(x):
    scores = x.T @ x
    scores[np.triu_indices(3, 1)] = -np.inf
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return mix(scores @ x.T)


@program(V4)
def dropout_with_one_mask(x):
    rng, keep, s = np.random.default_rng(2), np.empty(4), 0.0
    for _ in range(3):
        keep[:] = rng.random(4) < 0.7
        h = x * keep
        h /= 0.7
        s = s + mix(h**2)
    return s


# What is refused


@refused(V3, errors.ArrayConversionError, "its derivative would be lost")
def array_of_complex_numbers(x):
    return np.sum(np.array([x[0] * (1 + 2j), x[1] + 1j]).imag)  # of objects NumPy takes the imaginary part to be 0


@program(V3)
def masked_array_of_numbers(x):
    return np.sum(np.ma.array([x[0], x[1] * x[2]], mask=[True, False]))


@refused(V3, errors.ArrayConversionError, "its derivative would be lost")
def strides_of_an_array_of_numbers(x):
    return np.sum(np.lib.stride_tricks.as_strided(x, (2,), (8,)))  # these would be those of pointers


@refused(V3, errors.ObjectArrayError, "NaN", "fgrad.numpy.array")
def maximum_of_nan(x):
    y = np.max(np.array([np.nan, x[0]]))  # of floating-point numbers nan
    return x[1] if y != y else y


@refused(V3, errors.ObjectArrayError, "NaN")
def sorted_nan(x):
    y = np.array([x[0] * np.nan, x[1]])
    y.sort()
    return y[0] + x[0]


@refused(V3, errors.ObjectArrayError, "truth values")
def logical_functions_of_numbers(x):
    return x[0] * np.sum(np.logical_or(np.array([x[0], x[1]]), 0))  # of objects it is the objects themselves


@program(V3)
def any_of_numbers(x):
    return x[0] * np.any(np.array([x[0], x[1]]))


@refused(V3, ValueError, "read-only")
def writes_into_asarray_of_the_argument(x):
    y = np.asarray(x)  # which is x itself in a plain run
    y *= 2.0
    return np.sum(x * y)


@refused(V3, errors.ArrayConversionError, "np.mean(np.stack([x, y]))")
def mean_of_an_array_of_numbers(x):
    return np.mean(np.array([x[0], x[1]]))  # NumPy makes the result a plain number


@refused(V3, errors.ArrayConversionError, "its derivative would be lost", "fgrad.numpy.zeros")
def number_into_plain_zeros(x):
    y = np.zeros(3)
    y[0] = x[0]
    return np.sum(y)


@refused(V3, errors.ArrayConversionError, "its derivative would be lost", "fgrad.numpy.zeros")
def slice_into_plain_zeros(x):
    y = np.zeros(4)
    y[1:] = x * 2
    return np.sum(y)


@refused(V3, errors.InPlaceError, "cannot hold a derivative", "fgrad.numpy")
def sum_into_a_plain_array(x):
    y = np.zeros(3)
    y += x
    return np.sum(y)


@refused(V3, errors.InPlaceError, "cannot hold a derivative", "fgrad.numpy")
def ufunc_into_a_plain_array(x):
    y = np.zeros(3)
    np.sin(x, out=y)
    return np.sum(y)


@refused(V3, errors.InPlaceError, "cannot hold a derivative", "fgrad.numpy")
def add_at_a_plain_array(x):
    y = np.zeros(3)
    np.add.at(y, [0, 0, 1], x)
    return np.sum(y)


@refused(V3, errors.InPlaceError, "cannot hold a derivative", "fgrad.numpy")
def copied_to_a_plain_array(x):
    y = np.zeros(3)
    np.copyto(y, x)
    return np.sum(y)


@refused(V3, errors.ArrayConversionError, "derivative would be lost")
def diagonal_of_a_plain_array_filled(x):
    A = np.zeros((3, 3))
    np.fill_diagonal(A, x)
    return np.sum(A)


@refused(V3, TypeError)
def inverse_of_an_array_of_numbers(x):
    return np.sum(np.linalg.inv(np.array([[x[0], 1.0], [0.0, x[1]]])))


@refused(V3, errors.ArrayConversionError, "derivative would be lost")
def plain_floats_asked_for(x):
    return np.sum(np.array([x[0]], dtype=float))


@refused(V3, ValueError, "read-only", by_numpy=True)
def write_into_a_broadcast_view(x):
    wide = np.broadcast_to(x * 1.0, (2, 3))
    wide[0] = 1.0
    return np.sum(wide)


@refused(M33, ValueError, "read-only", by_numpy=True)
def write_into_a_diagonal(x):
    d = np.diagonal(x * 1.0)
    d *= 2.0
    return np.sum(d * x[0])


@refused(V3, TypeError, "float64", "int64", by_numpy=True)
def integers_plus_fractions_in_place(x):
    order = np.argsort(x)
    order += x
    return np.sum(order * x)


@refused(V3, TypeError, "float64", "int64", by_numpy=True)
def integer_buffer_times_a_fraction(x):
    y = np.ones_like(x, dtype=int)
    y *= x
    return np.sum(y * x)


@refused(V3, TypeError, "float64", "int64", by_numpy=True)
def ufunc_into_an_integer_buffer(x):
    y = np.ones_like(x, dtype=int)
    np.sin(x, out=y)
    return np.sum(y * x)


@refused(V3, TypeError, "complex128", "float64", by_numpy=True)
def complex_into_a_real_buffer(x):
    y = x * 1.0
    y *= 1j
    return np.sum(y)


@refused(V3, ValueError, "broadcast", "(3,)", "(2,3)", by_numpy=True)
def sum_in_place_of_a_larger_shape(x):
    y = x * 1.0
    y += np.ones((2, 3))
    return np.sum(y)


@refused(V4, ValueError, "broadcast", by_numpy=True)
def assignment_of_another_length(x):
    y = x * 1.0
    y[:2] = x[1:]
    return np.sum(y)


@refused(V4, ValueError, "(2,)", by_numpy=True)
def ufunc_into_a_shorter_slice(x):
    y = x * 1.0
    np.exp(x, out=y[:2])
    return np.sum(y)


@refused(V4, IndexError, "out of bounds", by_numpy=True)
def write_past_the_end(x):
    y = x * 1.0
    y[4] = x[0]
    return np.sum(y)


@refused(V4, ValueError, by_numpy=True)
def mask_of_another_count(x):
    y = x * 1.0
    y[y > 0] = x[:2]
    return np.sum(y)


@refused(V4, TypeError, "does not support item assignment", by_numpy=True)
def write_into_a_number(x):
    s = x[0]
    s[0] = 2.0
    return s


@refused(M23, ValueError, by_numpy=True)
def rows_unpacked_into_too_many(x):
    a, b, c = x * 1.0
    return np.sum(a + b + c)


# The truth, from plain runs alone


def run_plain(function, x):
    return float(function(x.copy()))


SLOPES = ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60))
CURVATURES = ((1, 3 / 2), (2, -3 / 20), (3, 1 / 90))


def difference(f, x, u, h):
    """The derivative of `f` along `u`, by central differences of order 6."""
    return sum(c * (f(x + k * h * u) - f(x - k * h * u)) for k, c in SLOPES) / h


def second_difference(f, x, u, v, h):
    """The second derivative along `u` and `v`: a quarter of that along u + v twice, less that along u - v twice."""
    a, b = h * (u + v), h * (u - v)
    return sum(c * (f(x + k * a) + f(x - k * a) - f(x + k * b) - f(x - k * b)) for k, c in CURVATURES) / (4 * h * h)


@functools.cache
def truth(name):
    """The value, the direction, the gradient, and the Hessian times the direction."""
    function, x = PROGRAMS[name]

    def f(x):
        return run_plain(function, x)

    v = np.random.default_rng(len(name)).uniform(-1, 1, x.shape)
    units = np.eye(x.size).reshape(-1, *x.shape)
    gradient = np.array([difference(f, x, e, 1e-3) for e in units]).reshape(x.shape)
    product = np.array([second_difference(f, x, e, v, 3e-3) for e in units]).reshape(x.shape)
    assert np.isfinite(f(x))
    # With other steps, and along a mix of all axes, the same: the program is smooth here.
    np.testing.assert_allclose(np.sum(gradient * v), difference(f, x, v, 3e-3), **near(gradient, 1e-8))
    np.testing.assert_allclose(np.sum(product * v), second_difference(f, x, v, v, 2e-3), **near(product, 1e-7))
    return f(x), v, gradient, product


def near(expected, tolerance):
    return {"rtol": tolerance, "atol": tolerance * (1 + np.max(np.abs(expected)))}


def agrees(actual, expected, tolerance):
    actual = np.asarray(actual)
    assert actual.dtype == np.float64
    assert actual.shape == np.shape(expected)
    np.testing.assert_allclose(actual, expected, **near(expected, tolerance))


def writes_into_its_argument(function, x):
    y = x.copy()
    function(y)
    return y.tobytes() != x.tobytes()


def run_taped(function, x, persistent):
    """Run on a tape: a function that writes into its argument gets a copy, as what is watched would change."""
    t = fg.constant(x)
    with fg.GradientTape(persistent=persistent) as tape:
        tape.watch(t)
        result = function(t.copy() if writes_into_its_argument(function, x) else t)
    return tape, result, t


READ_ONLY = {"at_least_two_axes"}
"""Programs that write into a plain array of the elements of a concrete tensor, which is read-only."""


def check_value(name, function, x):
    value, _, _, _ = truth(name)
    found = [fg.value_and_grad(function)(x)[0]]
    if name in READ_ONLY:
        with pytest.raises(ValueError, match="read-only"):
            function(fg.constant(x))
    else:
        found.append(function(fg.constant(x)))
    for actual in found:
        assert np.asarray(actual).dtype == np.float64
        np.testing.assert_allclose(np.asarray(actual), value, rtol=1e-12, atol=1e-14)


def check_grad(name, function, x):
    agrees(fg.grad(function)(x), truth(name)[2], 1e-6)


def check_jvp(name, function, x):
    value, v, gradient, _ = truth(name)
    kept = v.tobytes()
    actual, tangent = fg.jvp(function, (x,), (v,))
    np.testing.assert_allclose(np.asarray(actual), value, rtol=1e-12, atol=1e-14)
    agrees(tangent, np.sum(gradient * v), 1e-6)
    assert v.tobytes() == kept


def check_tape(name, function, x):
    tape, result, t = run_taped(function, x, persistent=False)
    agrees(tape.gradient(result, t), truth(name)[2], 1e-6)


def check_persistent(name, function, x):
    tape, result, t = run_taped(function, x, persistent=True)
    first, second = tape.gradient(result, t), tape.gradient(result, t)
    agrees(first, truth(name)[2], 1e-6)
    np.testing.assert_array_equal(np.asarray(first), np.asarray(second))


def check_hvp(name, function, x):
    _, v, _, product = truth(name)
    kept = v.tobytes()
    agrees(fg.hvp(function)(x, v), product, 1e-6)
    assert v.tobytes() == kept


MODES = {
    "value": check_value, "grad": check_grad, "jvp": check_jvp, "tape": check_tape,
    "persistent": check_persistent, "hvp": check_hvp,
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_have_the_values_and_derivatives_of_their_plain_runs(name):
    function, x = PROGRAMS[name]
    for mode, check in MODES.items():
        with naming(mode):
            own = x.copy()
            check(name, function, own)
            assert own.tobytes() == x.tobytes()


def watched_and_run(function, x):
    with fg.GradientTape() as tape:
        t = fg.constant(x)
        tape.watch(t)
        result = function(t)
    return tape.gradient(result, t)


REFUSING = {
    "grad": lambda function, x: fg.grad(function)(x),
    "jvp": lambda function, x: fg.jvp(function, (x,), (np.ones_like(x),)),
    "tape": watched_and_run,
    "hvp": lambda function, x: fg.hvp(function)(x, np.ones_like(x)),
}


@pytest.mark.parametrize("mode", REFUSING)
@pytest.mark.parametrize("name", REFUSED)
def test_programs_that_cannot_be_followed_are_refused(name, mode):
    function, x, error, words, by_numpy = REFUSED[name]
    if by_numpy:
        with pytest.raises(error):
            function(x.copy())
    else:
        assert np.isfinite(run_plain(function, x))
    x = x.copy()
    kept = x.tobytes()
    with pytest.raises(error) as caught:
        REFUSING[mode](function, x)
    assert all(word in str(caught.value) for word in words)
    assert x.tobytes() == kept


@pytest.mark.parametrize(("program", "error", "words"), [
    (lambda x: np.sum(x * np.array([x[0], -8.0, 1.0]) ** (1 / 3)), errors.ObjectArrayError, "complex"),
    (lambda x: np.sum(x * np.array(["3", "4", "5"], object)), errors.StructureError, "no numbers"),
    (lambda x: np.kron(x, None), errors.StructureError, "no numbers"),
])  # fmt: skip
def test_objects_that_are_no_real_numbers_are_refused(program, error, words):
    """Python's -8.0 ** (1 / 3) is complex, where NumPy's is NaN."""
    with pytest.raises(error, match=words):
        fg.grad(program)(V3)
