"""`checkpoint`, `custom_vjp`, `custom_jvp`, `trace` and a new kind of trace between all other transforms.

Each of them leaves a function as it is, so a composition has the closed form of the composition
without it. The adapters and closed forms are those of `test_composition.py`.
"""

import itertools
from collections import Counter

import numpy as np
import pytest
from helpers import naming
from test_composition import CASES, DIFFERENT, TRANSFORMS, compare, expected, transform_by_name

import fgrad as fg
from fgrad.core.tensor import Tensor, apply, apply_call, box
from fgrad.core.trace import Trace
from fgrad.core.tree import flatten, unflatten
from fgrad.rules.rule import settled
from fgrad.scipy.integrate import quad
from fgrad.transforms.running import run, untraced


def by_custom_vjp(f):
    wrapped = fg.custom_vjp(f)

    def bwd(residuals, ct):
        return fg.vjp(f, residuals)[1](ct)

    wrapped.defvjp(lambda x: (f(x), x), bwd)
    return wrapped


def by_custom_jvp(f):
    wrapped = fg.custom_jvp(f)
    wrapped.defjvp(lambda primals, tangents: fg.jvp(f, primals, tangents))
    return wrapped


def by_trace(f):
    return lambda x: fg.trace(f)(x)(x)


class CountingTrace(Trace):
    """The trace of docs/own-traces.md: it counts operations, and lets all pass as it is."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def root(self, value):
        return box(value, self, None)

    def inside(self, x):
        return x._payload if type(x) is Tensor and x._trace is self else x

    def process(self, primitive, args, metadata):
        self.counts[primitive.name] += 1
        result = apply(primitive, [self.inside(x) for x in args], metadata)
        return tuple(map(self.root, result)) if type(result) is tuple else self.root(result)

    def process_call(self, call, leaves):
        self.counts[call.name] += 1
        return [self.root(x) for x in apply_call(call, [self.inside(x) for x in leaves])]


def counted(f):
    """Run a function under the trace, which leaves it as it is."""

    def run_counted(x):
        trace = CountingTrace()
        leaves, treedef = flatten(x)
        boxed = unflatten(treedef, [trace.root(settled(leaf)) for leaf in leaves])
        _, results, treedef, _ = run(trace, f, lambda: ((boxed,), {}))
        assert trace.counts
        return fg.tree_map(untraced, unflatten(treedef, results))

    return run_counted


def test_a_new_kind_of_trace_between_a_gradient_and_a_rule():
    @fg.custom_vjp
    def steep(x):
        return x * 1.0

    steep.defvjp(lambda x: (steep(x), None), lambda residuals, ct: (100.0 * ct,))
    for f in (counted(steep), counted(counted(steep)), fg.checkpoint(counted(steep)), counted(fg.checkpoint(steep))):
        assert fg.grad(f)(2.0).item() == 100.0
        assert fg.jvp(f, (2.0,), (1.0,))[1].item() == 100.0
        assert fg.vmap(fg.grad(f))(np.array([2.0, 3.0])).tolist() == [100.0, 100.0]


def test_a_trace_that_does_not_say_what_a_call_means_is_not_passed_over():
    class Silent(CountingTrace):
        process_call = Trace.process_call

    trace = Silent()
    with pytest.raises(fg.errors.UnsupportedError, match="custom derivative, for which Silent defines no meaning"):
        run(trace, by_custom_vjp(lambda x: x * 2.0), lambda: ((trace.root(np.float64(1.0)),), {}))


SAME = {
    "checkpoint": fg.checkpoint,
    "custom_vjp": by_custom_vjp,
    "custom_jvp": by_custom_jvp,
    "trace": by_trace,
    "a new trace": counted,
}
NAMES = ["number", "vector_to_number", "vector_to_vector"]


def check(name, transforms):
    """Compare a composition, the outermost first, with the closed form that leaves these four out."""
    function = CASES[name].function
    for transform in reversed(transforms):
        function = SAME[transform](function) if transform in SAME else transform_by_name(transform)(function)
    others = tuple(each for each in transforms if each not in SAME)
    with naming(name, *transforms):
        found = function(CASES[name].point)
        compare(found if others else fg.tree_map(fg.convert_to_tensor, found), expected(name, others))


@pytest.mark.parametrize("same", SAME)
@pytest.mark.parametrize("name", NAMES)
def test_pairs(name, same):
    for transform in TRANSFORMS:
        check(name, (transform, same))
        check(name, (same, transform))
    for other in SAME:
        check(name, (same, other))


@pytest.mark.parametrize("same", SAME)
def test_triples(same):
    for outer, inner in itertools.product(["implicit_gradients", *DIFFERENT], repeat=2):
        check("number", (outer, same, inner))
        check("number", (outer, inner, same))
        check("number", (same, outer, inner))
    for outer, other in itertools.product(TRANSFORMS, SAME):
        check("vector_to_number", (same, outer, other))


def test_second_derivatives_of_solvers_that_close_over_the_examples_of_a_batch():
    """Examples of one batch stand for those of another in which the rule is run for each."""

    def root(a):
        return fg.implicit_diff(lambda b: np.sqrt(a), lambda x, b: x * x - a)(2.0)

    x = np.array([0.3, 0.65])
    second, third = -0.25 * x**-1.5, 0.375 * x**-2.5

    def total(x):
        return np.sum(fg.vmap(root)(x))

    def slopes(x):
        return fg.vmap(fg.grad(root))(x)

    along = fg.jvp(lambda x: fg.jvp(slopes, (x,), (np.ones(2),))[1], (x,), (np.ones(2),))[1]
    np.testing.assert_allclose(fg.hessian(total)(x), np.diag(second), rtol=1e-9)
    np.testing.assert_allclose(fg.hessian(lambda x: np.sum(slopes(x)))(x), np.diag(third), rtol=1e-9)
    np.testing.assert_allclose(along, third, rtol=1e-9)


def test_higher_derivatives_of_a_batch_of_solutions():
    """The traces around the batch follow the solver's rule, and not the code that calls SciPy."""

    def total(s):  # (1 - exp(-s)) / s + (1 - exp(-2 s)) / 2 s
        return np.sum(fg.vmap(lambda a: quad(lambda x: np.exp(-a * s * x), 0.0, 1.0)[0])(np.array([1.0, 2.0])))

    def exact(order):
        return quad(lambda x: sum((-a * x) ** order * np.exp(-a * 0.3 * x) for a in (1.0, 2.0)), 0.0, 1.0)[0]

    np.testing.assert_allclose(fg.hessian(total)(0.3), exact(2), rtol=1e-12)
    np.testing.assert_allclose(fg.grad(fg.grad(total))(0.3), exact(2), rtol=1e-12)
    np.testing.assert_allclose(fg.derivatives(total, 3)(0.3), [exact(order) for order in range(4)], rtol=1e-12)
