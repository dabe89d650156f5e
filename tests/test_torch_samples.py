"""PyTorch's own sample inputs, by which it tests its operations, as a test of fgrad: `make peers-test`.

Each operation of PyTorch's list with a spelling in NumPy or SciPy (`torch_samples_table.py`) runs on its samples of
double precision, real and complex. An operation in neither of the tables there fails, so that a new release of PyTorch
says what has come. Seven things hold of each sample:

    value       is PyTorch's
    reverse     the gradient by random cotangents is PyTorch's; for complex numbers both mean the direction of ascent
    forward     the derivative in a random direction has the same product with the cotangents
    second      a second derivative, forward and reverse over reverse, is PyTorch's by two backward passes
    batch       vmap of all that is what a loop gives
    compiled    so is what fg.compile makes of it, for other numbers of the same shapes, too
    differences where PyTorch says something else, differences of the function decide

To stay within minutes, at most `SAMPLES` of those of at most `NUMBERS` numbers run, spread evenly over the list, of
which the first `COMPILED` are compiled.
"""

import warnings
import zlib
from collections import Counter

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch_samples_table import CALLS, COMPARED, DIFFERS, LEFT_OUT, NO_SECOND, PREPARED, REFUSED, ROUNDED

import fgrad as fg
from fgrad.errors import FgradError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

SAMPLES, NUMBERS, COMPILED = 20, 400, 3
DROPPED = {"device", "layout", "memory_format", "requires_grad", "pin_memory", "non_blocking"}
"""What an option says of PyTorch's memory alone."""

DTYPES = {
    id(getattr(torch, name)): np.dtype(name) for name in ("float64", "complex128", "float32", "int64", "int32", "bool")
}

SINGLE = {np.dtype(name) for name in ("float16", "float32", "complex64")}


def key_of(op):
    return f"{op.name}/{op.variant_test_name}" if op.variant_test_name else op.name


def row(table, key):
    """Return what a table has for a variant, or for all of them."""
    return table.get(key, table.get(key.split("/")[0]))


OPERATIONS = {key_of(op): op for op in op_db}
NOT_RUN = {key for names in LEFT_OUT.values() for key in names.split()}
RUN = [key for key in OPERATIONS if row(CALLS, key) and key not in NOT_RUN]


def leaves(tree):
    """Yield what containers hold, without what is None."""
    if isinstance(tree, (tuple, list)):
        for x in tree:
            yield from leaves(x)
    elif isinstance(tree, dict):
        yield from leaves(list(tree.values()))
    elif tree is not None:
        yield tree


def tensors(sample):
    return [x for x in leaves([sample.input, sample.args, sample.kwargs]) if isinstance(x, torch.Tensor)]


def samples(op, dtype):
    """Return the samples that are run."""
    found = list(op.sample_inputs("cpu", dtype, requires_grad=op.supports_autograd))
    sizes = {id(sample): sum(x.numel() for x in tensors(sample)) for sample in found}
    small = [x for x in found if sizes[id(x)] <= NUMBERS] or sorted(found, key=lambda x: sizes[id(x)])[:1]
    count = min(len(small), SAMPLES)
    return [small[i * len(small) // count] for i in range(count)]


def array(tensor):
    """Return a copy, in the order in which the elements lie."""
    return np.array(tensor.numpy(force=True))


def put(tree, table):
    """Return arguments with what a table has in place of tensors, by their ids, and of types of numbers."""
    if isinstance(tree, (torch.Tensor, torch.dtype)):
        return table.get(id(tree), tree)
    if isinstance(tree, dict):
        return {name: put(x, table) for name, x in tree.items()}
    if isinstance(tree, (tuple, list)):
        return type(tree)(put(x, table) for x in tree) if type(tree) in (tuple, list) else tuple(tree)
    return tree


class Case:
    """One sample: a function of its inputs in NumPy, and what PyTorch says of it.

    f(*inputs)      the results; those that `flags` says have a derivative
    ask()           PyTorch's values, gradients by the cotangents, and their derivative in a direction
    """

    def __init__(self, key, sample):
        self.op, self.sample, self.call = OPERATIONS[key], sample, row(CALLS, key)
        self.compare, self.prepare = row(COMPARED, key), row(PREPARED, key)
        self.tolerance = 1e-4 if key in ROUNDED else 1e-8
        self.rng = np.random.default_rng(zlib.crc32(key.encode()))
        by_id = {id(x): x for x in tensors(sample)}
        # Some are views of others, which would get the gradient.
        self.leaves = {place: x.detach().requires_grad_(x.requires_grad) for place, x in by_id.items()}
        self.watched = [x for x in self.leaves.values() if x.requires_grad]
        self.arrays = {place: array(x) for place, x in by_id.items()}
        floats = {place: x for place, x in by_id.items() if x.is_floating_point() or x.is_complex()}
        self.varied = [place for place, x in by_id.items() if x.requires_grad] or list(floats)
        self.inputs = tuple(self.arrays[place] for place in self.varied)
        self.ask()

    def results(self, call, table, dropped=()):
        """Return the results of a function here or there, by what stands for the sample's tensors."""
        options = {name: put(x, table) for name, x in self.sample.kwargs.items() if name not in dropped}
        first, args = put(self.sample.input, table), put(self.sample.args, table)
        found = call(self.prepare(first) if self.prepare else first, *args, **options)
        return list(leaves(self.compare(*found) if self.compare else found))

    def f(self, *xs):
        arrays = self.arrays | dict(zip(self.varied, xs, strict=True))
        found = self.results(self.call, DTYPES | arrays, DROPPED)
        # NumPy's eigenvalues, say, are real where they can be.
        return [
            x + 0j if np.iscomplexobj(y) and not np.iscomplexobj(x) else x
            for x, y in zip(found, self.values, strict=True)
        ]

    def parted(self, *xs):
        """Return the results that have a derivative, and all."""
        found = self.f(*xs)
        return [x for x, flag in zip(found, self.flags, strict=True) if flag], found

    def followed(self, *xs):
        return self.parted(*xs)[0]

    def drawn(self, likes):
        """Draw numbers like others."""
        draws = [self.rng.normal(size=x.shape) + 1j * np.asarray(self.rng.normal(size=x.shape)) for x in likes]
        return [np.asarray(z if np.iscomplexobj(x) else z.real, x.dtype) for z, x in zip(draws, likes, strict=True)]

    def ask(self):
        with sdpa_kernel(SDPBackend.MATH):  # others have no second derivatives
            found = self.results(self.op, self.leaves)
        self.flags = [isinstance(x, torch.Tensor) and x.requires_grad for x in found]
        self.values = [array(x) if isinstance(x, torch.Tensor) else np.asarray(x) for x in found]
        followed = [x for x, flag in zip(found, self.flags, strict=True) if flag]
        self.cotangents = self.drawn([array(x) for x in followed])
        # What is not finite has no part in products and differences.
        pairs = zip(self.cotangents, followed, strict=True)
        self.weights = [np.where(np.isfinite(array(x)), ct, 0) for ct, x in pairs]
        self.directions = tuple(self.drawn(self.inputs))
        self.gradients = self.seconds = None
        if followed:
            grads = self.grads(followed, self.cotangents, create_graph=self.op.supports_gradgrad)
            self.gradients = [array(x) for x in grads]
            if self.op.supports_gradgrad:
                pairs = [(x, v) for x, v in zip(grads, self.directions, strict=True) if x.requires_grad]
                seconds = self.grads(*zip(*pairs, strict=True)) if pairs else map(torch.zeros_like, grads)
                self.seconds = [array(x) for x in seconds]

    def grads(self, outputs, cotangents, **options):
        cotangents = [torch.as_tensor(x) for x in cotangents]
        return torch.autograd.grad(outputs, self.watched, cotangents, materialize_grads=True, **options)

    def pulled(self, *xs):
        """Return all results, and the gradients by the cotangents."""
        if not any(self.flags):
            return self.f(*xs), []
        _, pullback, rest = fg.vjp(self.parted, *xs, has_aux=True)
        return rest, list(pullback(self.cotangents))

    def gradient(self, *xs):
        return self.pulled(*xs)[1]

    def others(self):
        """Return other inputs of the same shapes."""
        return tuple(0.9 * x if x.dtype.kind in "fc" else x for x in self.inputs)

    def value(self):
        close(self.f(*self.inputs), self.values, self.tolerance, typed=False)

    def reverse(self):
        close(self.gradient(*self.inputs), self.gradients, self.tolerance)

    def forward(self):
        tangents = fg.jvp(self.followed, self.inputs, self.directions)[1]
        single = any(x.dtype in SINGLE for x in [*self.values, *self.inputs])
        gradient = fg.vjp(self.followed, *self.inputs)[1](self.weights)
        wanted = product(self.directions, gradient)
        close(product(self.weights, tangents), wanted, 1e-3 if single else 1e-8)

    def second(self):
        if self.seconds is None:  # PyTorch has none
            self.by_differences("second")
        else:
            close(fg.jvp(self.gradient, self.inputs, self.directions)[1], self.seconds, 10 * self.tolerance)
            close(fg.vjp(self.gradient, *self.inputs)[1](list(self.directions)), self.seconds, 10 * self.tolerance)

    def batch(self):
        wanted = [self.pulled(*xs) for xs in (self.inputs, self.others())]
        found = fg.vmap(self.pulled)(*[np.stack(pair) for pair in zip(self.inputs, self.others(), strict=True)])
        close(found, [np.stack(pair) for pair in zip(*map(plain, wanted), strict=True)])

    def compiled(self):
        run = fg.compile(self.pulled)
        for xs in (self.inputs, self.others()):
            close(run(*xs), self.pulled(*xs))

    def by_differences(self, mode):
        """Compare a derivative with differences, instead of with PyTorch's."""
        if mode == "reverse":
            weights, function = self.weights, self.followed
            found = fg.vjp(self.followed, *self.inputs)[1](weights)
        else:
            weights, function = self.directions, self.gradient
            found = fg.jvp(self.gradient, self.inputs, self.directions)[1]
            close(fg.vjp(self.gradient, *self.inputs)[1](list(weights)), found)
        for _ in range(3):
            direction = self.drawn(self.inputs)
            slope = difference(lambda *xs: product(weights, function(*xs)), self.inputs, direction)
            close(product(direction, found), slope, 1e-5)


def plain(tree):
    return [np.asarray(x) for x in leaves(tree)]


def product(xs, ys):
    """Return the product of two lists of arrays, without what has no weight."""
    pairs = zip(plain(xs), plain(ys), strict=True)
    return float(sum(np.sum(np.where(x == 0, 0, (np.conj(x) * y).real)) for x, y in pairs))


def difference(f, xs, direction, step=1e-6):
    """Return the slope of a function to a number in a direction, by a difference."""
    after, before = ([x + sign * step * t for x, t in zip(xs, direction, strict=True)] for sign in (1, -1))
    return (f(*after) - f(*before)) / (2 * step)


def close(found, wanted, tolerance=1e-8, typed=True):
    """Compare arrays by the size of the largest of each; PyTorch's types of numbers are not always NumPy's."""
    for x, y in zip(plain(found), plain(wanted), strict=True):
        assert x.shape == y.shape
        assert x.dtype == y.dtype or not typed
        limit = max(tolerance, 1e-5) if {x.dtype, y.dtype} & SINGLE else tolerance
        scale = np.max(np.abs(y[np.isfinite(y)]), initial=1) if y.dtype.kind in "fc" else 1
        np.testing.assert_allclose(x, y, rtol=limit, atol=limit * scale)


def modes(case, number, key):
    """Return what is run of a sample."""
    left_out = set()
    if not any(case.flags):
        left_out |= {"reverse", "forward", "second"}
    if key in NO_SECOND:
        left_out |= {"second"}
    if number >= COMPILED:
        left_out |= {"compiled"}
    if not case.inputs:
        left_out |= {"batch", "compiled"}
    every = ["value", "reverse", "forward", "second", "batch", "compiled"]
    return [mode for mode in every if mode not in left_out]


def judge(case, mode, key):
    """Run a sample in one mode; return the name of the table that excuses it, if one does."""
    try:
        getattr(case, mode)()
    except AssertionError:
        if mode not in ("reverse", "second") or key not in DIFFERS:
            raise
        case.by_differences(mode)
        return "DIFFERS"
    except FgradError as error:
        if key not in REFUSED or not isinstance(error, REFUSED[key].error):
            raise
        return "REFUSED"
    return None


def trial(key):
    """Run all samples of an operation; return what failed, and how often each mode ran and each table excused."""
    problems, counts = [], Counter()
    for dtype in (torch.float64, torch.complex128):
        chosen = samples(OPERATIONS[key], dtype) if OPERATIONS[key].supports_dtype(dtype, "cpu") else []
        for number, sample in enumerate(chosen):
            case = Case(key, sample)
            for mode in modes(case, number, key):
                counts[mode] += 1
                try:
                    counts[judge(case, mode, key)] += 1
                except Exception as error:
                    problems.append(f"{key}, {dtype}, sample {number}, {mode}: {type(error).__name__}: {error}")
    return problems, counts


@pytest.mark.parametrize("key", RUN)
def test_an_operation_of_pytorch(key):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        problems, counts = trial(key)
    assert not problems, "\n".join(problems)
    assert counts["value"], "no samples"
    for name, table in {"DIFFERS": DIFFERS, "REFUSED": REFUSED}.items():
        assert bool(counts[name]) == (key in table), f"{name} says what is no longer so"


def test_every_operation_of_pytorch_is_in_one_of_the_tables():
    assert sorted(set(OPERATIONS) - {*RUN, *NOT_RUN}) == []
    known = {*OPERATIONS, *(key.split("/")[0] for key in RUN)}
    assert sorted({*CALLS, *NOT_RUN, *COMPARED, *PREPARED, *ROUNDED, *DIFFERS, *REFUSED, *NO_SECOND} - known) == []
