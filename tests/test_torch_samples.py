"""PyTorch's own sample inputs, by which it tests its operations, as a test of fgrad: `make peers-test`.

Each operation of PyTorch's list with a spelling in NumPy or SciPy (`torch_samples_table.py`) runs on its samples of double
precision, real and complex. An operation in neither of the tables there fails, so that a new release of PyTorch says what has
come. Seven things hold of each sample:

    value       is PyTorch's
    reverse     the gradient by random cotangents is PyTorch's; for complex numbers both mean the direction of ascent
    forward     the derivative in a random direction has the same product with the cotangents
    second      a second derivative, forward and reverse over reverse, is PyTorch's by two backward passes
    batch       vmap of all that is what a loop gives
    compiled    so is what fg.compile makes of it, for other numbers of the same shapes, too
    differences where PyTorch says something else, differences of the function decide

To stay within minutes, at most `SAMPLES` of those of at most `NUMBERS` numbers run, spread evenly over the list, of which the
first `COMPILED` are compiled.
"""

import warnings
import zlib

import numpy as np
import torch
from torch_samples_table import CALLS, COMPARED, PREPARED

import fgrad as fg

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

SAMPLES, NUMBERS, COMPILED = 12, 400, 2
DROPPED = {"device", "layout", "memory_format", "requires_grad", "pin_memory", "non_blocking"}
"""What an option says of PyTorch's memory alone."""

DTYPES = {
    getattr(torch, name): np.dtype(name) for name in ("float64", "complex128", "float32", "int64", "int32", "bool")
}


def key_of(op):
    return f"{op.name}/{op.variant_test_name}" if op.variant_test_name else op.name


def row(table, key):
    """Return what a table has for a variant, or for all of them."""
    return table.get(key, table.get(key.split("/")[0]))


OPERATIONS = {key_of(op): op for op in op_db}


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
    return np.array(tensor.detach().resolve_conj().resolve_neg().numpy())


def in_numpy(tree, arrays):
    """Return arguments with arrays, by the tensors' ids, in place of tensors."""
    if isinstance(tree, torch.Tensor):
        return arrays[id(tree)]
    if isinstance(tree, (tuple, list)):
        return type(tree)(in_numpy(x, arrays) for x in tree) if type(tree) in (tuple, list) else tuple(tree)
    if isinstance(tree, torch.dtype):
        return DTYPES[tree]
    return tree


class Case:
    """One sample, as a function of its inputs in NumPy, and what PyTorch says of it.

    f(*inputs)      the results, of which `followed` says which have a derivative
    ask()           PyTorch's results, its gradients by the cotangents, and their derivative in a direction
    """

    def __init__(self, key, sample):
        self.op, self.sample, self.call = OPERATIONS[key], sample, row(CALLS, key)
        self.compare, self.prepare = row(COMPARED, key), row(PREPARED, key)
        self.rng = np.random.default_rng(zlib.crc32(key.encode()))
        self.arrays = {id(x): array(x) for x in tensors(sample)}
        by_id = {id(x): x for x in tensors(sample)}
        self.watched = [x for x in by_id.values() if x.requires_grad]
        self.varied = self.watched or [x for x in by_id.values() if x.dtype.is_floating_point or x.dtype.is_complex]
        self.inputs = [self.arrays[id(x)] for x in self.varied]

    def results(self, call, input, args, kwargs):
        found = call(self.prepare(input) if self.prepare else input, *args, **kwargs)
        return list(leaves(self.compare(*found) if self.compare else found))

    def f(self, *xs):
        arrays = self.arrays | dict(zip(map(id, self.varied), xs, strict=True))
        sample = self.sample
        options = {k: in_numpy(v, arrays) for k, v in sample.kwargs.items() if k not in DROPPED}
        return self.results(self.call, in_numpy(sample.input, arrays), in_numpy(sample.args, arrays), options)

    def followed(self, *xs):
        """Return the results that have a derivative."""
        return [x for x, flag in zip(self.f(*xs), self.flags, strict=True) if flag]

    def drawn(self, likes):
        """Draw numbers like others."""
        draws = [self.rng.normal(size=x.shape) + 1j * np.asarray(self.rng.normal(size=x.shape)) for x in likes]
        return [np.asarray(z if np.iscomplexobj(x) else z.real, x.dtype) for z, x in zip(draws, likes, strict=True)]

    def ask(self):
        found = self.results(self.op, self.sample.input, self.sample.args, self.sample.kwargs)
        self.flags = [isinstance(x, torch.Tensor) and x.requires_grad for x in found]
        self.values = [array(x) if isinstance(x, torch.Tensor) else np.asarray(x) for x in found]
        followed = [x for x, flag in zip(found, self.flags, strict=True) if flag]
        self.cotangents = self.drawn([array(x) for x in followed])
        self.directions = self.drawn(self.inputs)
        if followed:
            cts = [torch.from_numpy(x) for x in self.cotangents]
            grads = torch.autograd.grad(
                followed, self.watched, cts, create_graph=self.op.supports_gradgrad, materialize_grads=True
            )
            self.gradients = [array(x) for x in grads]
            self.seconds = self._seconds(grads) if self.op.supports_gradgrad else None

    def _seconds(self, grads):
        pairs = [(g, torch.from_numpy(v)) for g, v in zip(grads, self.directions, strict=True) if g.requires_grad]
        if not pairs:
            return [np.zeros_like(x) for x in self.inputs]
        outs, vs = zip(*pairs, strict=True)
        found = torch.autograd.grad(outs, self.watched, vs, materialize_grads=True)
        return [array(x) for x in found]


def pulled(case, xs):
    """Return all results and the gradients by the cotangents."""
    if not any(case.flags):
        return case.f(*xs), []
    _, pullback, rest = fg.vjp(lambda *ys: (case.followed(*ys), case.f(*ys)), *xs, has_aux=True)
    return rest, list(pullback(case.cotangents))


def close(found, wanted, tolerance=1e-8):
    found, wanted = [[np.asarray(x) for x in leaves(tree)] for tree in (found, wanted)]
    for x, y in zip(found, wanted, strict=True):
        assert x.shape == y.shape, f"shape {x.shape}, not {y.shape}"
        single = {np.dtype(t) for t in ("float32", "complex64", "float16")} & {x.dtype, y.dtype}
        scale = np.max(np.abs(y[np.isfinite(y)]), initial=0) if y.dtype.kind in "fc" else 0
        rtol = 1e-5 if single else tolerance
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * scale)
