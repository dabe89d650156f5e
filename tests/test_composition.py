"""Every transform over every other: pairs, triples and more, against derivatives in closed form.

The reference knows nothing of fgrad. Test functions are written once with NumPy and once as sums of
c * x1^a1 * ... * xn^an * exp(b1 x1 + ... + bn xn), with complex b for sines and cosines. Such sums are
closed under products, derivatives and affine changes of variables, by exact rules for the coefficients
(`Form`); so the composition of any transforms has a closed form, too.

    TRANSFORMS     from a function of one tree to another, by fgrad
    REFERENCES     the same on `Field`, the closed form of such a function
    closed over    the transform of z -> f(z + x) s(x) at a constant: the inner function closes over x
"""

import cmath
import copy
import functools
import itertools
import math
import operator
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from helpers import naming

import fgrad as fg
from fgrad import errors

ZERO = fg.UnconnectedGradients.ZERO
TOLERANCE = 1e-10
NO_VALUE = r"bool\(\) needs a value(.|\n)*at test_composition\.py(.|\n)*np\.where"


# Trees, by hand: tuples, lists and dicts, the leaves of dicts in the order of their sorted keys


def tmap(f, tree):
    if isinstance(tree, dict):
        return {key: tmap(f, tree[key]) for key in sorted(tree)}
    if isinstance(tree, (tuple, list)):
        return type(tree)(tmap(f, item) for item in tree)
    return f(tree)


def leaves_of(tree):
    found: list[Any] = []
    tmap(found.append, tree)
    return found


def numbered(tree, values_of):
    """Return arrays in place of a tree's leaves, made from each leaf's number and shape."""
    counter = itertools.count()
    return tmap(lambda leaf: values_of(next(counter), np.shape(leaf)), tree)


def _some(first, step, cycle, unit=0.25):
    """Make a rule for numbers that are no multiples of each other, are not zero, and have few digits."""

    def values_of(number, shape):
        count = np.arange(math.prod(shape)).reshape(shape)
        return first + ((step * count + 3 * number) % cycle) * unit

    return values_of


weights_for = functools.partial(numbered, values_of=_some(-0.625, 5, 7))
directions_for = functools.partial(numbered, values_of=_some(-1.125, 2, 5))
factors_for = functools.partial(numbered, values_of=_some(0.5, 3, 4))  # positive: no sign changes
constants_for = functools.partial(numbered, values_of=_some(0.03125, 1, 3, 0.03125))  # small and positive: likewise
EXAMPLES = [(1.0, 0.0), (0.5, 0.25), (-0.5, 0.125)]  # vmap: the scale and the shift of each
SHARES = np.array([1.0, -2.0, 0.5])  # and its share in the sum


def contracted(y):
    """Return the weighted sum of a tree of arrays."""
    return sum(np.sum(w * leaf) for w, leaf in zip(leaves_of(weights_for(y)), leaves_of(y), strict=True))


def first_element(x):
    return np.reshape(leaves_of(x)[0], -1)[0]


# The transforms, each as a function from a function of one tree to another


def spread(f, x):
    """Return a function of several arguments, and the arguments, where the tree is a tuple."""
    return (lambda *args: f(args), x) if isinstance(x, tuple) else (f, (x,))


def gathered(results, x):
    return tuple(results) if isinstance(x, tuple) else results[0]


def by_grad(f):
    def g(x):
        many, args = spread(f, x)
        return gathered(fg.grad(lambda *a: contracted(many(*a)), argnums=tuple(range(len(args))))(*args), x)

    return g


def by_value_and_grad(f):
    def g(x):
        value, slope = fg.value_and_grad(lambda x: contracted(f(x)))(x)
        return tmap(lambda leaf: leaf + value, slope)

    return g


def with_zeros(gradients, x):
    """Return the leaves of gradients, nested like x, with zeros for None."""
    rest = iter(gradients)
    return tmap(lambda leaf: fg.convert_to_tensor(np.zeros_like(leaf)) if (s := next(rest)) is None else s, x)


def by_gradients_function(f):
    def g(x):
        many, args = spread(f, x)
        return with_zeros(leaves_of(fg.gradients_function(many)(*args)), x)

    return g


def _times_variables(x):
    variables = tmap(fg.Variable, factors_for(x))
    return variables, lambda: fg.tree_map(lambda v, leaf: v * leaf, variables, x)


def by_implicit_gradients(f):
    def g(x):
        variables, product = _times_variables(x)
        pairs = fg.implicit_gradients(lambda: contracted(f(product())))()
        # `f` may read variables of its own; ours are told by identity, and each comes once.
        found = [[slope for slope, v in pairs if v is own] for own in leaves_of(variables)]
        assert all(len(slopes) == 1 for slopes in found)
        return with_zeros([slope for (slope,) in found], x)

    return g


def by_tape(f):
    def g(x):
        x = fg.tree_map(fg.convert_to_tensor, x)
        with fg.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x, weights_for(y), ZERO)

    return g


def by_tape_of_variables(f):
    def g(x):
        variables, product = _times_variables(x)
        with fg.GradientTape() as tape:
            y = f(product())
            return tape.gradient(y, variables, weights_for(y), ZERO)

    return g


def by_persistent_tape(f):
    """The second derivative by one tape, which records its own gradient."""

    def g(x):
        x = fg.tree_map(fg.convert_to_tensor, x)
        with fg.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = f(x)
            slope = tape.gradient(y, x, weights_for(y), ZERO)
            return tape.gradient(slope, x, directions_for(x), ZERO)

    return g


def by_persistent_tape_once(f):
    def g(x):
        x = fg.tree_map(fg.convert_to_tensor, x)
        with fg.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = f(x)
            return tape.gradient(y, x, weights_for(y), ZERO)

    return g


def by_tape_jacobian(f):
    def g(x):
        x = fg.tree_map(fg.convert_to_tensor, x)
        with fg.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = f(x)
        return fg.tree_map(lambda leaf: tape.jacobian(leaf, x, ZERO), y)

    return g


def by_jvp(f):
    def g(x):
        many, args = spread(f, x)
        return fg.jvp(many, args, spread(f, directions_for(x))[1])[1]

    return g


def by_jvp_along_itself(f):
    return lambda x: fg.jvp(f, (x,), (x,))[1]


def by_linearize(f):
    return lambda x: fg.linearize(f, x)[1](directions_for(x))


def by_vjp(f):
    def g(x):
        many, args = spread(f, x)
        value, pullback = fg.vjp(many, *args)
        return gathered(pullback(weights_for(value)), x)

    return g


def by_vjp_weighed_by_itself(f):
    def g(x):
        value, pullback = fg.vjp(f, x)
        return pullback(tmap(lambda w: w * contracted(x), weights_for(value)))[0]

    return g


def by_vmap(f):
    def g(x):
        many, args = spread(f, fg.tree_map(lambda leaf: np.stack([s * leaf + t for s, t in EXAMPLES]), x))
        return fg.tree_map(lambda y: np.tensordot(SHARES, y, 1), fg.vmap(many)(*args))

    return g


def by_vmap_over_scales(f):
    def example(scale, shift, x):
        return f(fg.tree_map(lambda leaf: scale * leaf + shift, x))

    def g(x):
        scales, shifts = np.array(EXAMPLES).T
        y = fg.vmap(example, in_axes=(0, 0, None), out_axes=-1)(scales, shifts, x)
        return fg.tree_map(lambda leaf: leaf @ SHARES, y)

    return g


def by_hessian(f):
    return lambda x: fg.hessian(lambda x: contracted(f(x)))(x)


def by_hvp(f):
    return lambda x: fg.hvp(lambda x: contracted(f(x)))(x, directions_for(x))


TRANSFORMS = {
    "grad": by_grad,
    "value_and_grad": by_value_and_grad,
    "gradients_function": by_gradients_function,
    "implicit_gradients": by_implicit_gradients,
    "tape": by_tape,
    "persistent_tape": by_persistent_tape,
    "jvp": by_jvp,
    "vjp": by_vjp,
    "vmap": by_vmap,
    "jacfwd": fg.jacfwd,
    "jacrev": fg.jacrev,
    "hessian": by_hessian,
}
FURTHER = {
    "tape_of_variables": by_tape_of_variables,
    "persistent_tape_once": by_persistent_tape_once,
    "tape_jacobian": by_tape_jacobian,
    "jvp_along_itself": by_jvp_along_itself,
    "vjp_weighed_by_itself": by_vjp_weighed_by_itself,
    "linearize": by_linearize,
    "vmap_over_scales": by_vmap_over_scales,
    "hvp": by_hvp,
}
VMAPS = {"vmap", "vmap_over_scales"}
CLOSED = "closed:"


def transform_by_name(name):
    """Return an adapter; with the prefix, that of z -> f(z + x) s(x) at a constant z."""
    if not name.startswith(CLOSED):
        return {**TRANSFORMS, **FURTHER}[name]
    transform = transform_by_name(name.removeprefix(CLOSED))

    def of(f):
        def g(x):
            def inner(z):
                scale = first_element(x)
                return fg.tree_map(lambda y: y * scale, f(fg.tree_map(lambda a, b: a + b, z, x)))

            return transform(inner)(constants_for(x))

        return g

    return of


# The reference


class Form:
    """A sum of c * x^a * exp(b . x): a table from the powers a and the rates b to the coefficient c."""

    def __init__(self, n, terms):
        self.n = n
        self.terms = {key: c for key, c in terms.items() if c != 0}

    @classmethod
    def affine(cls, n, row, shift=0):
        """Return the sum of row[j] * x_j, plus a shift, in n variables."""
        none = (0,) * n
        powers = {j: (*none[:j], 1, *none[j + 1 :]) for j in row}
        return cls(n, {(none, none): shift} | {(powers[j], none): c for j, c in row.items()})

    def _like(self, other):
        return other if isinstance(other, Form) else Form.affine(self.n, {}, other)

    def __add__(self, other):
        total = dict(self.terms)
        for key, c in self._like(other).terms.items():
            total[key] = total.get(key, 0) + c
        return Form(self.n, total)

    def __mul__(self, other):
        total: dict[Any, Any] = {}
        for (a1, b1), c1 in self.terms.items():
            for (a2, b2), c2 in self._like(other).terms.items():
                key = tuple(map(operator.add, a1, a2)), tuple(map(operator.add, b1, b2))
                total[key] = total.get(key, 0) + c1 * c2
        return Form(self.n, total)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self):
        return self * -1

    def __sub__(self, other):
        return self + -1 * other

    def __rsub__(self, other):
        return -self + other

    def __pow__(self, power):
        return functools.reduce(lambda product, _: product * self, range(power - 1), self)

    def derivative(self, i):
        total: dict[Any, Any] = {}
        for (a, b), c in self.terms.items():
            if a[i]:
                key = (*a[:i], a[i] - 1, *a[i + 1 :]), b
                total[key] = total.get(key, 0) + c * a[i]
            if b[i]:
                total[a, b] = total.get((a, b), 0) + c * b[i]
        return Form(self.n, total)

    def along(self, direction):
        """Return the derivative in a direction, of numbers or forms."""
        return sum((self.derivative(i) * d for i, d in enumerate(direction)), Form(self.n, {}))

    def substituted(self, rows, n):
        """Return the form in n new variables, in which each old one is affine: a pair (row, shift)."""
        forms = [Form.affine(n, row, shift) for row, shift in rows]
        total = Form(n, {})
        for (a, b), c in self.terms.items():
            shift = sum(rate * s for rate, (_, s) in zip(b, rows, strict=True))
            rates = tuple(sum(rate * row.get(j, 0) for rate, (row, _) in zip(b, rows, strict=True)) for j in range(n))
            term = Form(n, {((0,) * n, rates): c * (cmath.exp(shift) if shift else 1)})
            for form, power in zip(forms, a, strict=True):
                if power:
                    term = term * form**power
            total = total + term
        return total

    def exp(self):
        """Return the exponential of a linear form."""
        assert all(sum(a) == 1 and not any(b) for a, b in self.terms)
        return Form(self.n, {((0,) * self.n, tuple(self.along(row).number() for row in np.eye(self.n))): 1})

    def number(self):
        """Return the value of a form that is constant."""
        ((key, value),) = self.terms.items() or [((), 0)]
        assert not any(map(any, key))
        return value

    def sin(self):
        return ((self * 1j).exp() - (self * -1j).exp()) * -0.5j

    def cos(self):
        return ((self * 1j).exp() + (self * -1j).exp()) * 0.5

    def at(self, point):
        """Return the value at a point."""
        value, size = 0j, 0.0
        for (a, b), c in self.terms.items():
            rate = sum(map(operator.mul, b, point))
            term = c * math.prod(map(operator.pow, point, a)) * cmath.exp(rate)
            value, size = value + term, size + abs(term)
        assert abs(value.imag) <= 1e-13 * size
        return value.real


@dataclass
class Field:
    """The closed form of a function: a tree like its argument, and a tree of arrays of forms, its result.

    The first variables of the forms are the elements of the argument; others are parameters.
    """

    argument: Any
    result: Any
    parameters: int = 0

    def __post_init__(self):
        self.size = len(elements(self.argument))
        self.total = self.size + self.parameters
        self.numbers = numbered_elements(self.argument)

    def over(self, result):
        return Field(self.argument, result, self.parameters)

    def variable(self, i):
        return Form.affine(self.total, {i: 1})

    def contracted(self):
        return contracted(self.result) + Form(self.total, {})

    def by_element(self, form_of):
        """Return a field with a result like the argument: for each element's number, a form."""
        return self.over(each(form_of, self.numbers))

    def each(self, change):
        return self.over(each(change, self.result))

    def rescaled(self, scales, shifts):
        """Return what puts scaled and shifted variables into a form, and leaves the parameters."""
        rows = [({i: s}, t) for i, (s, t) in enumerate(zip(scales, shifts, strict=True))]
        rows += [({i: 1}, 0) for i in range(self.size, self.total)]
        return lambda form: form.substituted(rows, self.total)


def elements(tree):
    """Return the elements of a tree of arrays in a list."""
    return [item for leaf in leaves_of(tree) for item in np.asarray(leaf).ravel().tolist()]


def numbered_elements(tree):
    count = itertools.count()
    return tmap(lambda leaf: array_of(np.shape(leaf), lambda _: next(count)), tree)


def array_of(shape, item_at):
    array = np.empty(shape, object)
    for index in np.ndindex(shape):
        array[index] = item_at(index)
    return array


def each(change, tree):
    return tmap(lambda leaf: array_of(leaf.shape, lambda index: change(leaf[index])), tree)


def field_of(f, argument):
    """Return the field of a function that can compute with arrays of forms."""
    blank = Field(argument, None)
    return blank.over(tmap(lambda y: np.asarray(y, object), f(blank.by_element(blank.variable).result)))


def gradient_field(field):
    return field.by_element(field.contracted().derivative)


def value_and_gradient_field(field):
    total = field.contracted()
    return field.by_element(lambda i: total.derivative(i) + total)


def summed_gradient_field(field):
    return field.by_element(sum(elements(field.result), Form(field.total, {})).derivative)


def variable_gradient_field(field):
    total = field.contracted()
    scaled = field.rescaled(elements(factors_for(field.argument)), [0] * field.size)
    return field.by_element(lambda i: scaled(total.derivative(i)) * field.variable(i))


def second_field(field):
    return field.by_element(field.contracted().along(elements(directions_for(field.argument))).derivative)


def tangent_field(field):
    direction = elements(directions_for(field.argument))
    return field.each(lambda form: form.along(direction))


def tangent_along_itself_field(field):
    direction = [field.variable(i) for i in range(field.size)]
    return field.each(lambda form: form.along(direction))


def weighed_by_itself_field(field):
    total, scale = field.contracted(), field.by_element(field.variable).contracted()
    return field.by_element(lambda i: total.derivative(i) * scale)


def batch_field(field):
    examples = [field.rescaled([scale] * field.size, [shift] * field.size) for scale, shift in EXAMPLES]
    shares = SHARES.tolist()
    return field.each(lambda form: sum(c * example(form) for c, example in zip(shares, examples, strict=True)))


def jacobian_field(field):
    def block(leaf, numbers):
        cut = leaf.ndim
        return array_of(leaf.shape + numbers.shape, lambda at: leaf[at[:cut]].derivative(numbers[at[cut:]]))

    return field.over(tmap(lambda leaf: tmap(lambda numbers: block(leaf, numbers), field.numbers), field.result))


def hessian_field(field):
    return jacobian_field(gradient_field(field))


REFERENCES = {
    "grad": gradient_field,
    "value_and_grad": value_and_gradient_field,
    "gradients_function": summed_gradient_field,
    "implicit_gradients": variable_gradient_field,
    "tape": gradient_field,
    "persistent_tape": second_field,
    "jvp": tangent_field,
    "vjp": gradient_field,
    "vmap": batch_field,
    "jacfwd": jacobian_field,
    "jacrev": jacobian_field,
    "hessian": hessian_field,
    "tape_of_variables": variable_gradient_field,
    "persistent_tape_once": gradient_field,
    "tape_jacobian": jacobian_field,
    "jvp_along_itself": tangent_along_itself_field,
    "vjp_weighed_by_itself": weighed_by_itself_field,
    "linearize": tangent_field,
    "vmap_over_scales": batch_field,
    "hvp": second_field,
}


def reference_by_name(name):
    if not name.startswith(CLOSED):
        return REFERENCES[name]
    reference = REFERENCES[name.removeprefix(CLOSED)]

    def of(field):
        """Take z as the variables and x as the parameters, and in the end a constant for z."""
        n = field.size
        wide = Field(field.argument, None, parameters=n)
        scale = first_element(wide.by_element(lambda i: wide.variable(n + i)).result)
        sums = [({i: 1, n + i: 1}, 0) for i in range(n)]
        inner = field.each(lambda form: form.substituted(sums, 2 * n) * scale).result
        fixed = [({}, z) for z in elements(constants_for(field.argument))] + [({i: 1}, 0) for i in range(n)]
        return field.over(reference(wide.over(inner)).each(lambda form: form.substituted(fixed, n)).result)

    return of


# The functions: with NumPy, and element by element with forms


@dataclass
class Case:
    """A function for fgrad, the same function for the reference, and where to differentiate it."""

    function: Any
    closed_form: Any
    point: Any
    asks_for_values: bool = False


CASES: dict[str, Case] = {}


def case(point, closed_form, asks_for_values=False):
    def add(function):
        CASES[function.__name__] = Case(function, closed_form, point, asks_for_values)
        return function

    return add


def _row(*items):
    """Return an array of forms, of the shape in which they are nested."""
    return np.array(items, object)


A = np.array([[0.5, -1.0, 0.25], [1.0, 0.5, 0.0], [-0.25, 0.75, 1.5]])
M = np.array([[0.5, -1.0], [2.0, 0.25]])
SLOPE = fg.Variable(1.5)
RATES = fg.Variable([0.5, -1.0, 0.25])


@case(0.75, lambda x: x[()] ** 2 * (2 * x[()]).sin() + x[()] * (-0.5 * x[()]).exp())
def number(x):
    return x**2 * np.sin(2 * x) + x * np.exp(-x / 2)


@case(-1.25, lambda x: 1.5 * x[()] ** 6 - 0.5 * x[()] ** 3 + 4)
def powers(x):
    square = x * x
    return 1.5 * square**3 - x**3 / 2 + 4.0


@case(
    np.array([0.5, -1.25, 0.75]),
    lambda x: x[1] * x[0] ** 2 + x[2] * x[1] ** 2 + x[0] * x[1] * x[2] ** 2 + (0.5 * x[0] - x[1]).exp(),
)
def vector_to_number(x):
    return np.sum(x[1:] * x[:-1] ** 2) + np.prod(x) * x[-1] + np.exp(np.dot(x, [0.5, -1.0, 0.0]))


@case(
    np.array([0.5, -1.25, 0.75]),
    lambda x: _row(
        (0.5 * x[0] - x[1] + 0.25 * x[2]).sin() * x[0] + x[0],
        (x[0] + 0.5 * x[1]).sin() * x[1] + x[0] * x[1],
        (-0.25 * x[0] + 0.75 * x[1] + 1.5 * x[2]).sin() * x[2] + x[0] * x[1] * x[2],
    ),
)
def vector_to_vector(x):
    return np.sin(A @ x) * x + np.cumprod(x)


@case(
    np.array([[0.5, -0.75], [1.25, 1.5]]),
    lambda x: np.array([
        [
            sum(x[i, k] * M[k, m] * x[m, j] for k in range(2) for m in range(2))
            + x[j, i] * (0.5 * x[0, 0] + 0.5 * x[1, 1]).exp()
            for j in range(2)
        ]
        for i in range(2)
    ]),
)  # fmt: skip
def matrix_to_matrix(x):
    return x @ M @ x + x.T * np.exp(np.sum(x * np.eye(2)) / 2)


@case(
    np.array([[0.5, -0.75], [1.25, 1.5]]),
    lambda x: (x[0, 0] * x[1, 1] - x[0, 1] * x[1, 0]) * (x[0, 0] ** 2 + 2 * x[0, 1] * x[1, 0] + x[1, 1] ** 2),
)
def matrix_to_number(x):
    return (x[0, 0] * x[-1, -1] - np.prod(x[[0, 1], [1, 0]])) * np.einsum("ij,ji->", x, x)


@case(
    np.array([0.5, -1.25]),
    lambda x: _row(
        (x[0] - 2 * x[1]).exp() * x[0],
        (0.5 * x[0]).exp() + (-1 * x[1]).exp() + x[0] * x[1],
        0.25 * (x[0] - x[1]) ** 2 * x[0] ** 2 * x[1],
        0.5 * ((2 * x[0]).exp() + -1 * (-2 * x[0]).exp()) * x[1],
    ),
)
def identities(x):
    """Divide, take logarithms, roots and inverse functions, so that what is left has a closed form."""
    a, b = x
    quotient = np.exp(a) / np.sqrt(np.exp(4 * b)) * np.log(np.exp(a))
    logarithms = np.exp(np.logaddexp(a / 2, -b)) + 4 * np.arctan(np.tan(a / 4)) * np.log1p(np.expm1(b))
    return fg.stack([quotient, logarithms, np.var(x) * a * np.prod(x), np.sinh(2 * a) * np.tanh(np.arctanh(b / 4)) * 4])


@case(
    {"w": np.array([[0.5, -0.75], [1.25, 1.5]]), "b": np.array([-0.5, 1.25])},
    lambda x: {
        "y": _row(*[(x["w"][i] @ x["b"]) * x["b"][i] for i in range(2)]),
        "energy": x["b"][0] ** 2 * x["w"][0, 1] + (x["w"][0, 0] - x["b"][1]).cos(),
    },
)
def dictionary(x):
    w, b = x["w"], x["b"]
    return {"y": (w @ b) * b, "energy": b[0] ** 2 * w[0, 1] + np.cos(w[0, 0] - b[1])}


@case(
    (0.75, {"v": np.array([0.5, -1.25])}),
    lambda x: (
        _row(x[0][()] ** 3 * x[1]["v"][1], x[1]["v"][0] ** 2 * x[0][()]),
        [x[1]["v"][0] * x[1]["v"][1] * (-1 * x[0][()]).exp()],
    ),
)
def two_arguments(x):
    a, v = x[0], x[1]["v"]
    return fg.stack([a**3 * v[1], v[0] ** 2 * a]), [np.prod(v) * np.exp(-a)]


@case(
    np.array([0.5, -1.25, 0.75]),
    lambda x: _row(*[
        1.5 * x[i] ** 3 * r + (r * x[i]).sin() * (0.5 * x[0] - x[1] + 0.25 * x[2])
        for i, r in enumerate([0.5, -1.0, 0.25])
    ]),
)  # fmt: skip
def variables(x):
    return SLOPE * x**3 * RATES + np.sin(RATES * x) * np.dot(RATES, x)


@case(
    np.array([0.5, -1.25, 0.75]),
    lambda x: _row(x[1] ** 2 * x[2], x[2] ** 3, x[0] ** 2 * x[1], x[1] ** 2),
)
def assignment(x):
    """Write into a tensor, reverse, repeat, choose by a mask, and take maxima far from ties."""
    y = x * x
    y[0] = y[1] * x[2]
    y[1:] = fg.stack([x[2] ** 3, y[1]]) * 1.0
    y = np.where([True, True, False], y, x[::-1] * np.take(x, [2, 1, 1]) * 0 + x[0] ** 2 * x[1])
    return np.maximum(np.concatenate([y, (x * x)[1:2]]), -1000.0)


@case(
    np.array([0.75, -1.25, 0.5]),
    lambda x: x[0] ** 3 * x[2] + x[1].exp() * x[0] + x[2] ** 3 * x[1],
    asks_for_values=True,
)
def branches(x):
    total = 0.0
    for i in range(3):
        if x[i] > 0:
            total = total + x[i] ** 3 * x[i - 1]
        else:
            total = total + np.exp(x[i]) * x[i - 1]
    return total


@case(
    np.array([0.75, 1.25, 0.5]),
    lambda x: _row(*[(x[i] + 2 * x[0]) * x[i] ** 2 for i in range(3)]),
    asks_for_values=True,
)
def loop(x):
    """Go round a `while` twice, however the argument is scaled."""
    y, total = x, np.sum(x)
    while total < 2.5 * np.sum(x):
        y, total = y * x if bool(total > 1.5 * np.sum(x)) else y + 2 * x[0], total + np.sum(x)
    return y * x


# Fields are made from the inside out, and each only once


@functools.cache
def field_by_names(name, names):
    """Return the closed form of transforms, the outermost first, of a case's function."""
    if not names:
        return field_of(CASES[name].closed_form, CASES[name].point)
    return reference_by_name(names[0])(field_by_names(name, names[1:]))


def check(name, names):
    """Run transforms, the outermost first, of a case's function, and compare with the closed form."""
    with naming(name, *names):
        _check(name, names)


def _check(name, names):
    function, point = CASES[name].function, CASES[name].point
    for transform in reversed(names):
        function = transform_by_name(transform)(function)
    if CASES[name].asks_for_values and any(each.removeprefix(CLOSED) in VMAPS for each in names):
        with pytest.raises(errors.ConcretizationError, match=NO_VALUE):
            function(point)
        return
    found = function(point)
    compare(found if names else fg.tree_map(fg.convert_to_tensor, found), expected(name, names))


@functools.cache
def expected(name, names):
    at = elements(CASES[name].point)
    return tmap(
        lambda leaf: array_of(leaf.shape, lambda index: leaf[index].at(at)).astype(float),
        field_by_names(name, names).result,
    )


def compare(found, wanted):
    """Compare trees: containers, kinds and shapes of leaves, and numbers."""
    if isinstance(wanted, np.ndarray):
        assert type(found) is fg.Tensor
        assert found.shape == wanted.shape
        assert found.dtype == np.float64
        scale = max(1.0, np.max(np.abs(wanted)))
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=TOLERANCE, atol=TOLERANCE * scale)
    elif isinstance(wanted, dict):
        assert type(found) is dict
        assert found.keys() == wanted.keys()
        for key in wanted:
            compare(found[key], wanted[key])
    else:
        assert type(found) is type(wanted)
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            compare(one, other)


# The compositions


def draw(seed, names, count, depth):
    """Draw compositions, by a fixed seed."""
    random_numbers = random.Random(seed)
    return [tuple(random_numbers.choices(names, k=depth)) for _ in range(count)]


SMALL = sorted(name for name in CASES if len(elements(CASES[name].point)) <= 3)
PLAIN = [*TRANSFORMS, *FURTHER]
CLOSURES = [CLOSED + name for name in PLAIN]


@pytest.mark.parametrize("name", CASES)
def test_the_functions_and_each_transform_alone(name):
    check(name, ())
    for transform in PLAIN + CLOSURES:
        check(name, (transform,))


DIFFERENT = ["tape", "persistent_tape", "jvp", "vmap", "jacfwd", "hessian"]
"""Transforms of which none is another with a different result."""


@pytest.mark.parametrize("name", CASES)
def test_pairs(name):
    """All of them on a number and on containers, on others those that differ in more than what they return."""
    every = name in ("number", "vector_to_vector", "two_arguments", "branches", "loop")
    for pair in itertools.product(TRANSFORMS if every else DIFFERENT, repeat=2):
        check(name, pair)


@pytest.mark.parametrize("name", ["number", "two_arguments", "branches"])
@pytest.mark.parametrize("outer", PLAIN)
def test_pairs_with_further_transforms(name, outer):
    for inner in PLAIN if outer in FURTHER else FURTHER:
        check(name, (outer, inner))


@pytest.mark.parametrize("name", ["number", "two_arguments", "loop"])
@pytest.mark.parametrize("outer", TRANSFORMS)
def test_pairs_where_the_inner_function_closes_over_the_outer_argument(name, outer):
    for inner in TRANSFORMS:
        check(name, (outer, CLOSED + inner))
        if name != "loop":
            check(name, (CLOSED + outer, CLOSED + inner))


@pytest.mark.parametrize("outer", TRANSFORMS)
def test_triples_on_a_number(outer):
    """All of them but for those in the middle that differ in no more than what they return."""
    for middle, inner in itertools.product(DIFFERENT, TRANSFORMS):
        check("number", (outer, middle, inner))


TRIPLES = draw(1, PLAIN + CLOSURES, 300, depth=3)


@pytest.mark.parametrize("outer", PLAIN + CLOSURES)
def test_triples(outer):
    for names in TRIPLES:
        if names[0] == outer:
            # Each draw goes to one function, so that all of them come up equally often.
            check(random.Random("-".join(names)).choice(SMALL), names)


@pytest.mark.parametrize("name", sorted(set(CASES) - set(SMALL)))
def test_triples_on_matrices_and_dictionaries(name):
    for names in draw(f"triples of {name}", PLAIN, 12, depth=3):
        check(name, names)


@pytest.mark.parametrize("names", draw(2, PLAIN + CLOSURES, 60, depth=4), ids="-".join)
def test_four_and_five(names):
    check("number", names)
    check("powers", ("jvp", *names))


def test_the_draws_use_every_transform():
    """In every place."""
    for drawn in zip(*TRIPLES, strict=True):
        assert set(drawn) == {*PLAIN, *CLOSURES}


def test_in_threads():
    """Compositions that run at the same time do not see each other."""
    compositions = [
        (name, names)
        for names in draw(3, [name for name in PLAIN + CLOSURES if name.removeprefix(CLOSED) != "hessian"], 20, depth=3)
        for name in ("number", "dictionary", "loop")
    ]
    assert {type(expected(*composition)) for composition in compositions} == {np.ndarray, dict}
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda composition: check(*composition), compositions))


# Derivatives of a function of one number, by every means: D(f)(x) is f'(x)


def d_gradients_function(f):
    return lambda x: fg.gradients_function(f)(x)[0]


def d_value_and_grad(f):
    return lambda x: fg.value_and_grad(f)(x)[1]


def d_implicit_gradients(f):
    """Differentiate by a variable that is added to the argument, and is zero."""

    def derivative(x):
        step = fg.Variable(0.0)
        ((slope, _),) = [pair for pair in fg.implicit_gradients(lambda: f(x + step))() if pair[1] is step]
        return slope

    return derivative


def d_tape_of_a_variable(f):
    def derivative(x):
        step = fg.Variable(0.0)
        with fg.GradientTape() as tape:
            y = f(x + step)
        return tape.gradient(y, step, unconnected_gradients=ZERO)

    return derivative


def handle_of(x):
    """Return a tensor of its own for a tape to watch: `f` may close over the one that was passed in."""
    return copy.copy(fg.convert_to_tensor(x))


def d_tape(f):
    def derivative(x):
        x = handle_of(x)
        with fg.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x, unconnected_gradients=ZERO)

    return derivative


def d_persistent_tape(f):
    def derivative(x):
        x = handle_of(x)
        with fg.GradientTape(persistent=True) as tape:
            tape.watch(x)
            return tape.gradient(f(x), x, unconnected_gradients=ZERO)

    return derivative


def d_jvp(f):
    return lambda x: fg.jvp(f, (x,), (1.0,))[1]


def d_vjp(f):
    return lambda x: fg.vjp(f, x)[1](1.0)[0]


def d_vmap_of_grad(f):
    return lambda x: fg.vmap(fg.grad(f))(fg.stack([x + 1.0, x]))[1]


def d_vmap_of_jvp(f):
    return lambda x: fg.vmap(lambda t: fg.jvp(f, (x,), (t,))[1])(np.array([2.0, 1.0]))[1]


D = {
    "grad": fg.grad,
    "value_and_grad": d_value_and_grad,
    "gradients_function": d_gradients_function,
    "implicit_gradients": d_implicit_gradients,
    "tape": d_tape,
    "tape_of_a_variable": d_tape_of_a_variable,
    "persistent_tape": d_persistent_tape,
    "jvp": d_jvp,
    "vjp": d_vjp,
    "jacfwd": fg.jacfwd,
    "jacrev": fg.jacrev,
    "vmap_of_grad": d_vmap_of_grad,
    "vmap_of_jvp": d_vmap_of_jvp,
}


def wrong(programs, expected):
    """Run programs, and return the names and results of those that do not give a number that is expected."""
    results = {name: program() for name, program in programs.items()}
    right = pytest.approx(expected, rel=1e-12)
    return {
        name: result
        for name, result in results.items()
        if not (type(result) is fg.Tensor and result.shape == () and result.item() == right)
    }


@pytest.mark.parametrize("one", D)
def test_third_derivatives_with_a_hessian(one):
    f = lambda x: x**5 + np.exp(2.0 * x) * np.sin(x)  # noqa: E731
    expected = 60 * 1.25**2 + ((2 + 1j) ** 3 * cmath.exp((2 + 1j) * 1.25)).imag
    second = {
        "hessian": fg.hessian,
        "hvp": lambda f: lambda x: fg.hvp(f)(x, 1.0),
        "the same persistent tape twice": _twice_by_one_tape,
    }
    programs = {(name, "outer"): functools.partial(two(D[one](f)), 1.25) for name, two in second.items()}
    programs |= {(name, "inner"): functools.partial(D[one](two(f)), 1.25) for name, two in second.items()}
    assert wrong(programs, expected) == {}


def _twice_by_one_tape(f):
    def second(x):
        x = handle_of(x)
        with fg.GradientTape(persistent=True) as tape:
            tape.watch(x)
            return tape.gradient(tape.gradient(f(x), x), x)

    return second


def test_the_third_derivative_by_one_persistent_tape():
    x = fg.constant(1.25)
    with fg.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x**5
        first = tape.gradient(y, x)
        second = tape.gradient(first, x)
        third = tape.gradient(second, x)
    assert third.item() == 60 * 1.25**2


# Perturbation confusion: programs of a derivative operator, the point, and the derivative there.
#
# [SP2005] Siskind and Pearlmutter, "Perturbation confusion and referential transparency: correct functional
#          implementation of forward-mode AD", IFL 2005.
# [SP2008] Siskind and Pearlmutter, "Nesting forward-mode AD in a functional framework", Higher-Order and
#          Symbolic Computation 21 (2008), https://doi.org/10.1007/s10990-008-9037-1
# [PS2007] Pearlmutter and Siskind, "Lazy multivariate higher-order forward-mode AD", POPL 2007,
#          https://doi.org/10.1145/1190216.1190242
# [PS2008] Pearlmutter and Siskind, "Reverse-mode AD in a functional framework: Lambda the ultimate
#          backpropagator", ACM TOPLAS 30 (2008), https://doi.org/10.1145/1330017.1330018
# [M2019]  Manzyuk, Pearlmutter, Radul, Rush and Siskind, "Perturbation confusion in forward automatic
#          differentiation of higher-order functions", J. Funct. Prog. 29 (2019),
#          https://doi.org/10.1017/S095679681900008X


def descent(d, x):
    """Minimize (y - x^2)^2 by steps that halve the distance to x^2."""
    y = 0.0
    for _ in range(3):
        y = y - 0.25 * d(lambda y: (y - x * x) ** 2)(y)
    return y


def offset(u):
    """Return the operator that shifts a function: [M2019] calls it s."""
    return lambda f: lambda x: f(x + u)


def offset_operator(d):
    """Return the derivative of the offset operator at 0, which is a function of functions.

    fgrad differentiates functions to numbers, so the result is applied to its arguments inside.
    """
    return lambda f: lambda x: d(lambda u: offset(u)(f)(x))(0.0)


PROGRAMS = {
    # [SP2005], [SP2008]: d/dx (x * d/dy (x + y)) is 1. One shared perturbation gives 2.
    "x d(x + y)": (lambda d, x: x * d(lambda y: x + y)(1.0), 1.0, 1.0),
    # [SP2005]: the same where the inner derivative depends on x: d/dx (x * x) is 2 x, not 2 x + y.
    "x d(x y)": (lambda d, x: x * d(lambda y: x * y)(2.0), 3.0, 6.0),
    # [SP2008]: the inner function does not depend on its own argument: 0, however it depends on x.
    "x d(x)": (lambda d, x: x * d(lambda y: x + 0.0 * y)(1.0), 3.0, 0.0),
    # [SP2008]: the inner point is the outer variable: x is held while y moves, d/dx (3 x^3) is 9 x^2.
    "inner point is the outer variable": (lambda d, x: d(lambda y: x * y**3)(x), 2.0, 36.0),
    # [PS2007]: two derivatives after each other inside a third: d/dx (2 x * x^2) is 6 x^2.
    "siblings": (lambda d, x: d(lambda y: x * y * y)(1.0) * d(lambda y: x * x * y)(1.0), 2.0, 24.0),
    # [PS2007]: three levels, d/dx (2 x^2).
    "three levels": (lambda d, x: d(lambda y: y * d(lambda z: x * y * z)(y))(x), 2.0, 8.0),
    # [PS2008]: the inner derivative is itself the function that is differentiated inside.
    "derivative of a derivative in x": (lambda d, x: d(d(lambda y: y**3 * x**2))(x), 2.0, 72.0),
    # [M2019]: the derivative of the offset operator, applied twice, is the second derivative; the amazing
    # bug makes it 0. One more derivative outside gives the third.
    "offset operator": (lambda d, x: offset_operator(d)(offset_operator(d)(np.exp))(x), 1.0, math.e),
    "offset operator bound once": (
        lambda d, x: (lambda h: h(h(lambda z: z**4))(x))(offset_operator(d)), 1.5, 24 * 1.5,
    ),
    # [M2019]: the operator's derivative in the place where the operator is differentiated: d/dx of
    # d/du (f(x + u) * d/dv f(x + u + v)) for f = exp is d/dx 2 exp(2x).
    "offset operator inside its own derivative": (
        lambda d, x: d(lambda u: np.exp(x + u) * offset_operator(d)(offset(u)(np.exp))(x))(0.0), 0.5, 4 * math.e,
    ),
    # [SP2008]: derivatives inside an optimization inside a derivative.
    "descent": (descent, 3.0, 6.0 * (1 - 2.0**-3)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_perturbation_confusion(name):
    program, point, expected = PROGRAMS[name]
    runs = {
        (outer, inner): functools.partial(D[outer](functools.partial(program, D[inner])), point)
        for outer, inner in itertools.product(D, repeat=2)
    }
    assert wrong(runs, expected) == {}


@pytest.mark.parametrize("outer", D)
def test_three_different_closures_over_each_other(outer):
    """Every third kind of transform inside two others, each of which closes over all arguments outside.

    Third derivatives of one function, without closures, are among `test_triples_on_a_number`.
    """

    def program(middle, inner):
        # d/dx d/dy (y * d/dz (x y^2 z^2)) at z = y, y = x: d/dy 2 x y^4 = 8 x y^3, and d/dx 8 x^4 = 32 x^3.
        return D[outer](lambda x: D[middle](lambda y: y * D[inner](lambda z: x * y * y * z * z)(y))(x))

    runs = {pair: functools.partial(program(*pair), 1.5) for pair in itertools.product(D, repeat=2)}
    assert wrong(runs, 32 * 1.5**3) == {}


@pytest.mark.parametrize("outer", D)
def test_maps_inside_maps(outer):
    """vmap inside a derivative inside vmap, each closing over what is outside."""
    xs, ys = np.array([0.5, -1.5, 2.0]), np.array([1.0, 3.0])

    def program(inner):
        def of_one(x):
            # The sum over y of y d/dz (x z^2) at z = x y is 2 x^2 times the sum of y^2.
            of_y = lambda y: y * D[inner](lambda z: x * z * z)(x * y)  # noqa: E731
            return np.sum(fg.vmap(of_y)(ys))

        return fg.vmap(D[outer](of_one))(xs)

    for inner in D:
        np.testing.assert_allclose(np.asarray(program(inner)), 4 * xs * 10.0, rtol=1e-13, err_msg=inner)


@pytest.mark.parametrize("outer", D)
def test_a_tape_watches_a_tensor_not_a_parameter(outer):
    """Where the very tensor that is watched is used twice, both uses count; of a copy, only the copy's."""

    def program(handle, x):
        x = fg.convert_to_tensor(x)
        y = handle(x)
        with fg.GradientTape() as tape:
            tape.watch(y)
            z = x * y**3
        return tape.gradient(z, y)

    assert D[outer](functools.partial(program, lambda x: x))(2.0).item() == 12 * 2.0**2  # of 4 x^3
    assert D[outer](functools.partial(program, copy.copy))(2.0).item() == 9 * 2.0**2  # of 3 x^3


@pytest.mark.parametrize("inner", D)
def test_a_tape_that_is_asked_to_watch_inside_a_transform_that_started_later(inner):
    """The tape sees the derivative that the transform computes, as it would had it watched before."""
    watched = []

    def cube(x):
        tape.watch(x)
        watched.append(x)
        return x**3

    with fg.GradientTape() as tape:
        slope = D[inner](cube)(fg.constant(2.0))
    if inner == "vmap_of_grad":  # what was watched is gone with the batch
        with pytest.raises(errors.LeakedTensorError):
            tape.gradient(slope, watched[-1])
        return
    assert np.sum(tape.gradient(slope, watched[-1])).item() == pytest.approx(12.0, rel=1e-14)


def test_a_closure_that_outlives_its_trace():
    """[M2019] asks what a closure means that was made in a derivative and is called after it: its value."""
    for inner, outer in itertools.product(D, repeat=2):
        kept = []

        def keep(u):
            kept.append(lambda x: x * x + u)
            return u * u

        assert float(np.reshape(D[inner](keep)(3.0), ())) == 6.0
        if "vmap" not in inner:  # there, u was a batch
            slope = D[outer](lambda x: x * kept[-1](x) + kept[-1](x))(2.0)
            # d/dx (x^3 + 3 x + x^2 + 3)
            assert slope.item() == pytest.approx(12.0 + 3.0 + 4.0, rel=1e-14), (inner, outer)


RETURNING = {
    "grad": (fg.grad, 1.0),
    "value_and_grad": (fg.value_and_grad, 1.0),
    "gradients_function": (fg.gradients_function, 1.0),
    "implicit_gradients": (fg.implicit_gradients, 1.0),
    "jvp": (d_jvp, 1.0),
    "vjp": (d_vjp, 1.0),
    "linearize": (lambda f: lambda x: fg.linearize(f, x), 1.0),
    "jacfwd": (fg.jacfwd, 1.0),
    "jacrev": (fg.jacrev, 1.0),
    "hessian": (fg.hessian, 1.0),
    "vmap": (fg.vmap, np.array([1.0, 2.0])),
}


@pytest.mark.parametrize("name", RETURNING)
def test_a_function_as_result_is_refused(name):
    """[M2019]'s derivatives of higher-order functions are written with the argument inside; else, an error.

    Handed out as it is, such a function would hold a value of the trace that has ended.
    """
    transform, point = RETURNING[name]

    def curried(x):
        return lambda y: SLOPE * x * y

    with pytest.raises(errors.OutputError, match=r"^curried returned <function .* of type function, which is not a"):
        transform(curried)(point)


# Variables: the same one differentiated at several levels


def w_implicit_gradients(f, w):
    return lambda: fg.implicit_gradients(f)()[0][0]


def w_tape(f, w):
    def derivative():
        with fg.GradientTape() as tape:
            y = f()
        return tape.gradient(y, w)

    return derivative


def w_persistent_tape(f, w):
    def derivative():
        with fg.GradientTape(persistent=True) as tape:
            return tape.gradient(f(), w)

    return derivative


def w_watched(f, w):
    def derivative():
        with fg.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(w)
            y = f()
        return tape.gradient(y, w)

    return derivative


W = {
    "implicit_gradients": w_implicit_gradients,
    "tape": w_tape,
    "persistent_tape": w_persistent_tape,
    "watched": w_watched,
}


@pytest.mark.parametrize("outer", W)
def test_one_variable_at_three_levels(outer):
    w = fg.Variable(1.5)
    for middle, inner in itertools.product(W, repeat=2):

        def innermost(inner=inner):
            return W[inner](lambda: w**4, w)()

        def between(middle=middle, innermost=innermost):
            return W[middle](lambda: w * innermost(), w)()

        # d/dw (w * d/dw (w * d/dw w^4)): w^4 -> 4 w^3 -> 4 w^4 -> 16 w^3 -> 16 w^4 -> 64 w^3.
        with naming(middle, inner):
            assert W[outer](lambda between=between: w * between(), w)().item() == 64 * 1.5**3


@pytest.mark.parametrize("of_argument", D)
def test_a_variable_and_an_argument(of_argument):
    """The mixed second derivative, either one inside the other."""
    w, d = fg.Variable(1.5), D[of_argument]
    for of_variable, dw in W.items():
        with naming(of_variable):
            argument_outside = d(lambda x, dw=dw: dw(lambda: w**2 * x**3, w)())
            # A transform of an argument differentiates by its own steps, too, where it is implicit: ask for w.
            variable_outside = dw(lambda: d(lambda x: w**2 * x**3)(2.0), w)
            assert argument_outside(2.0).item() == pytest.approx(2 * 1.5 * 12.0, rel=1e-14)
            assert variable_outside().item() == pytest.approx(2 * 1.5 * 12.0, rel=1e-14)


# Python's control flow between transforms


def square_root(d, x):
    """Newton's method with derivatives inside, as long as it takes."""
    y = x
    while abs(y * y - x) > 1e-6:
        y = y - (y * y - x) / d(lambda y: y * y - x)(y)
    for _ in range(3):  # the derivative comes a step or two after the value
        y = y - (y * y - x) / d(lambda y: y * y - x)(y)
    return y


@pytest.mark.parametrize("outer", D)
def test_a_loop_that_waits_for_values_computed_by_derivatives(outer):
    for inner in D:
        root = functools.partial(square_root, D[inner])
        if outer == "vmap_of_grad":
            with pytest.raises(errors.ConcretizationError, match=NO_VALUE):
                D[outer](root)(2.0)
        else:
            assert D[outer](root)(2.0).item() == pytest.approx(0.5 / math.sqrt(2.0), rel=1e-13), inner
            assert D[outer](fg.grad(root))(2.0).item() == pytest.approx(-0.25 / math.sqrt(8.0), rel=1e-11), inner


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_branch_under_vmap_is_refused_at_the_users_line(name):
    """Whichever transform stands between: the message names the line of the `if`, in this file."""
    transform = TRANSFORMS[name]
    function, point = CASES["branches"].function, CASES["branches"].point
    for composed in (by_vmap(transform(function)), transform(by_vmap(function))):
        with pytest.raises(errors.ConcretizationError, match=r"at test_composition\.py:\d+: if x\[i\] > 0:\n"):
            composed(point)
    # and nothing is left of it: the same call goes on as before.
    check("branches", (name,))


# The reference itself


def test_forms():
    """The closed forms that all is compared with, themselves compared with values worked out by hand."""
    x, y = (Form.affine(2, {i: 1}) for i in range(2))
    form = 3 * x**2 * y - (2 * x).sin() * (y - x).exp() + 5
    at = (0.5, -1.25)
    sin, cos, exp = math.sin(1.0), math.cos(1.0), math.exp(-1.75)
    assert form.at(at) == pytest.approx(3 * 0.25 * -1.25 - sin * exp + 5, rel=1e-15)
    assert form.derivative(0).at(at) == pytest.approx(6 * 0.5 * -1.25 - 2 * cos * exp + sin * exp, rel=1e-15)
    assert form.derivative(1).at(at) == pytest.approx(3 * 0.25 - sin * exp, rel=1e-15)
    assert form.derivative(0).derivative(1).at(at) == pytest.approx(6 * 0.5 - 2 * cos * exp + sin * exp, rel=1e-14)
    # x = 0.5 u - 1, y = 2 u + v
    changed = form.substituted([({0: 0.5}, -1.0), ({0: 2.0, 1: 1.0}, 0.0)], 2)
    assert changed.at((3.0, -7.25)) == pytest.approx(form.at(at), rel=1e-14)
    assert changed.derivative(0).at((3.0, -7.25)) == pytest.approx(
        0.5 * form.derivative(0).at(at) + 2.0 * form.derivative(1).at(at), rel=1e-14
    )
    assert (x - x).at(at) == 0.0
    assert (1 - x.cos() ** 2 - x.sin() ** 2).at(at) == pytest.approx(0.0, abs=1e-15)


def test_the_reference_tells_confusion():
    """The comparison would notice a derivative that is missing: the closed forms of pairs are not zero."""
    zero = [
        (name, pair)
        for name in CASES
        for pair in itertools.product(DIFFERENT, repeat=2)
        if not np.any(elements(expected(name, pair)))
    ]
    # These are of third order: of their fourth derivatives nothing is left.
    fourth = {"persistent_tape", "hessian"}
    assert {name for name, _ in zero} == {"assignment", "loop"}
    assert {pair for _, pair in zero} == set(itertools.product(fourth, repeat=2))


OPENED = {
    "tape": lambda x: fg.GradientTape(),
    "accumulator": lambda x: fg.ForwardAccumulator(x, 1.0),
}


@pytest.mark.parametrize("name", OPENED)
def test_a_tape_that_is_left_open_does_not_take_the_derivative(name):
    opened = []

    def cube(x):
        opened.append(OPENED[name](x))
        opened[-1].__enter__()
        if name == "tape":
            opened[-1].watch(x)
        return x**3

    try:
        assert fg.grad(cube)(2.0) == 12.0
        assert fg.jvp(cube, (2.0,), (1.0,)) == (8.0, 12.0)
        assert fg.hessian(cube)(2.0) == 12.0
        assert fg.derivatives(cube, 2)(2.0).tolist() == [8.0, 12.0, 12.0]
        assert fg.vmap(cube)(np.array([1.0, 2.0])).tolist() == [1.0, 8.0]
    finally:
        for each in reversed(opened):
            each.__exit__(None, None, None)
