"""Shared code of reverse mode: a function linearized at a point, its seeds and its gradients.

    Recording           the record of a reverse trace, and the passes over it; a tape holds one
    Linearization       the recording of a call
    differentiable      the array or tensor to trace for an argument
    make_seed           the initial cotangent: ones, or the user's weights
    gradient_at_edge    the gradient for the user, from a cotangent

The convention for complex numbers is applied here, where a pass begins and ends: inside, rules only transpose; the seed
is conjugated before the pass and the result after it. The gradient of a real loss is thus d/dx + i d/dy, the direction
of steepest ascent (as in TensorFlow and PyTorch; JAX returns its conjugate).
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from fgrad import errors
from fgrad.core.coerce import PLAIN, collected
from fgrad.core.foreign import FOREIGN, INEXACT, as_payload, exact_numbers, known_shape, package_of
from fgrad.core.layers import below
from fgrad.core.masked import may_hold_zeros
from fgrad.core.overrides import refuse_labelled, refuse_masked
from fgrad.core.primitive import ZERO
from fgrad.core.reverse import Entry, ReverseTrace, pull_back
from fgrad.core.tensor import Tensor, boxed, is_weak, own_handle, strip_ended
from fgrad.core.trace import Trace, running
from fgrad.core.tree import flatten, outline_of, paths, unflatten
from fgrad.core.variable import Variable, VariableWatch, recording
from fgrad.core.views import like_argument
from fgrad.errors.places import depth_of_user
from fgrad.transforms.calls import Place, name_of, place_name
from fgrad.transforms.cuts import Outline, outline_if_cut
from fgrad.transforms.running import is_array_of_others, is_number, owned, owned_tree, run_connected, untraced

# Values and cotangents at the edge


def differentiable(leaf: object) -> Any:
    """Return a leaf as an array or tensor to trace, or None if it has no derivative."""
    if type(leaf) is np.ndarray:
        return leaf if leaf.dtype.kind in "fc" else exact_numbers(leaf)
    if type(leaf) is np.float64:
        return leaf
    value = strip_ended(leaf)
    if type(value) is Tensor:
        if not value.shape and is_weak(value):
            value = np.reshape(value, ())  # NumPy's number, as a number of Python's becomes below
        return value if value.dtype.kind in INEXACT else None
    if isinstance(value, (float, complex)) and not isinstance(value, np.generic):
        return np.float64(value) if isinstance(value, float) else np.complex128(value)
    refuse_labelled(value, "fc")
    if FOREIGN[type(value)]:
        known_shape(value)
    elif not isinstance(value, (np.ndarray, np.generic)):
        return exact_numbers(value)
    return value if value.dtype.kind in INEXACT else None


def conjugate(x: Any) -> Any:
    """Return the complex conjugate; real numbers unchanged."""
    return np.conjugate(x) if x.dtype.kind == "c" else x


class UnconnectedGradients:
    """Choices for the gradient of a source that is not connected to the target.

    Attributes:
        NONE: None, which is the default of a tape.
        ZERO: zeros of the source's shape and dtype.

    Example:
        >>> import fgrad as fg
        >>> x, other = fg.constant(2.0), fg.constant(3.0)
        >>> with fg.GradientTape(persistent=True) as tape:
        ...     tape.watch([x, other])
        ...     y = x * x
        >>> print(tape.gradient(y, other))
        None
        >>> tape.gradient(y, other, unconnected_gradients=UnconnectedGradients.ZERO)
        Tensor(0.)
    """

    NONE = "none"
    ZERO = "zero"


def check_unconnected(choice: str) -> None:
    """Raise if `choice` is not one of the two values of `UnconnectedGradients`."""
    if choice not in (UnconnectedGradients.NONE, UnconnectedGradients.ZERO):
        raise errors.ParameterError(
            f"Unknown value for unconnected_gradients: {choice!r}; use UnconnectedGradients.NONE or .ZERO."
        )


def gradient_at_edge(cotangent: object, primal: object, unconnected: str = UnconnectedGradients.NONE) -> Any:
    """Convert the cotangent of an input into a gradient for the user."""
    if cotangent is None and unconnected == UnconnectedGradients.NONE:
        return None
    if cotangent is None or cotangent is ZERO:
        return boxed(np.zeros_like(primal))
    return boxed(conjugate(cotangent))


_ONE = np.ones(())
"""The commonest seed: a copy of it is ten times faster than `np.ones_like`."""


def _ones(like: Any) -> Any:
    """Return `np.ones_like(like)`, in half the time.

    Ones for a tensor are a tensor, too: users' rules make arrays like a cotangent, and write traced numbers into them.
    """
    if type(like) is np.float64:
        return _ONE.copy()
    array = below(like)
    if type(array) not in PLAIN:
        return np.ones_like(like)
    ones = np.ones(like.shape, like.dtype)
    return ones if like is array else boxed(ones)


def make_seed(seed: Any, value: Any, what: str) -> Any:
    """Return the initial cotangent of `value`: ones, or the user's weights.

    Raises:
        SeedError: the weights have another shape than the value (and are not a scalar).
    """
    if seed is None:
        return _ones(value)
    refuse_masked(seed)
    seed = strip_ended(collected(seed))
    seed = own_handle(seed) if type(seed) is Tensor else as_payload(seed)
    if seed.dtype.kind == "c" and value.dtype.kind != "c":
        raise errors.SeedError(f"{what} is complex, and its result is real ({value.dtype}).")
    if seed.shape not in ((), value.shape):
        raise errors.SeedError(
            f"{what} has shape {seed.shape}, and its result has shape {value.shape}.\n"
            "Weights have the shape of the result; a scalar applies to all elements."
        )
    if seed.dtype != value.dtype:
        seed = seed.astype(value.dtype)
    if type(seed) is np.ndarray:
        seed = seed.copy()  # it may become a gradient that the user writes to
    return conjugate(seed if seed.shape == value.shape else np.broadcast_to(seed, value.shape))


def match_seeds(seeds: object, results: object, what: str) -> list[Any]:
    """Return one seed, or None for ones, for each leaf of the results.

    Raises:
        SeedError: the seeds have another structure than the results.
    """
    leaves, treedef = flatten(results)
    if seeds is None:
        return [None] * len(leaves)
    if treedef.is_leaf():
        return [seeds]
    if isinstance(results, (list, tuple)) and isinstance(seeds, (list, tuple)):
        # None inside a container means ones, though for `flatten` it is not a leaf.
        if len(seeds) != len(results):
            raise errors.SeedError(f"{what} has {len(seeds)} entries for {len(results)} results.")
        return [leaf for seed, result in zip(seeds, results, strict=True) for leaf in match_seeds(seed, result, what)]
    if isinstance(results, dict) and isinstance(seeds, dict):
        if seeds.keys() != results.keys():
            raise errors.SeedError(f"{what} has the keys {sorted(seeds)}, and the result has {sorted(results)}.")
        ordered = unflatten(treedef, range(len(leaves)))
        matched: list[Any] = [None] * len(leaves)
        for key in results:
            for place, seed in zip(flatten(ordered[key])[0], match_seeds(seeds[key], results[key], what), strict=True):
                matched[place] = seed
        return matched
    seed_leaves, seed_treedef = flatten(seeds)
    if seed_treedef != treedef:
        found, wanted = outline_of(seed_treedef), outline_of(treedef)
        raise errors.SeedError(f"{what} has the structure {found}, and the result {wanted}.")
    return seed_leaves


# Records, and the passes over them


class Recording:
    """The record of a reverse trace for a block or a call, and the passes over it.

    While the trace runs, the trace holds the record; afterwards the recording does, so that the record is freed along
    with it, even if tensors are left.

    Args:
        trace: the reverse trace.
        all_trainable: whether every trainable variable that is read is watched.

    Attributes:
        trace: as above.
        watch: the variables that were read.
        record: the edges, until a pass consumes them.
        is_used: whether a pass has consumed them.
        outline: the outline of the record of the last pass, if a number was taken out of the trace.
        targets: the keys of the initial cotangents of that pass.
        missed: the name of a variable that another thread has read, and whether this one has, too.
        outputs: for each result of the function, its key, or None if it is not connected, and its value.
        aux: further results, which are not differentiated.
    """

    is_used = False
    aux: Any = None
    _program: Trace | None = None
    _start = 0
    _is_newest: bool | None = None
    outline: Outline | None = None
    targets: Collection[int] = ()
    missed: tuple[str, bool] | None = None

    def __init__(self, trace: ReverseTrace, all_trainable: bool) -> None:
        self.trace, self.watch = trace, VariableWatch(trace, all_trainable)
        self.record: list[Entry] = trace.record
        self.outputs: list[tuple[int | None, Any]] = []

    @property
    def is_open(self) -> bool:
        """Whether the trace runs."""
        return self.trace.level > 0

    def resume(self) -> None:
        """Resume recording."""
        self.trace.record, self.record = self.record, []
        self.trace.__enter__()
        self.watch.__enter__()

    def pause(self) -> None:
        """Stop recording; after an interrupt it may be called again."""
        self.trace.level = 0
        if self.trace.record:  # else it was moved already
            self.record, self.trace.record = self.trace.record, []
        self.trace.copies.clear()
        self.watch.__exit__()

    def begin(self) -> None:
        """Note where the function begins in the recording of the innermost program."""
        if running.watches and (recorder := recording()) is not None:
            self._program, self._start = recorder.trace, recorder.trace.count()

    def shorten(self) -> None:
        """Use a shorter record that is equivalent, if that program has one; the seeds of all results are ones."""
        if self._program is not None:
            self._is_newest = self.trace.is_newest()  # the derivatives of loops are recorded by further traces
            self._program.shorten(self, self._start)

    def is_newest(self) -> bool:
        """Return whether no trace has been made since this one, other than those of a record that is shorter."""
        return self.trace.is_newest() if self._is_newest is None else self._is_newest

    def roots(self) -> list[tuple[int, Any]]:
        """Return the keys of all inputs, and their values below the trace."""
        return [(key, strip_ended(variable)) for variable, key in self.watch.chosen.items()]

    def replace(self, trace: ReverseTrace, keys: dict[int, int], results: dict[Any, Any]) -> None:
        """Replace the record by that of another trace.

        Args:
            trace: it has recorded an equivalent function, and has ended.
            keys: the new keys of the connected inputs, by the old ones.
            results: the new results, by the marks of the old ones.
        """
        self.trace, self.record, trace.record = trace, trace.record, []
        self.watch.chosen = {variable: keys.get(key, ~key) for variable, key in self.watch.chosen.items()}
        for place, (key, old) in enumerate(self.outputs):
            if key is not None:
                new = results[old._mark]
                is_connected = type(new) is Tensor and new._trace is trace
                self.outputs[place] = (new._mark, new._payload) if is_connected else (None, new)

    def warn_of_other_threads(self) -> None:
        """Warn if a trainable variable was read in another thread: what is computed there has no gradient here."""
        self.missed = self.watch.missed()
        if self.missed is not None:
            name, is_here_too = self.missed
            lost = (
                "what is computed from it there adds nothing to its gradient" if is_here_too else "it has no gradient"
            )
            warnings.warn(
                f"the variable {name!r} was read in another thread, where reads are not recorded: {lost}. "
                "Read it in this thread and pass the tensor to the other thread; or run the other "
                "thread's function in this context, contextvars.copy_context().run(function)",
                errors.NoGradientWarning,
                stacklevel=depth_of_user(),
            )

    def edges(self) -> list[Entry]:
        """Return a copy of the current record."""
        return (self.trace.record if self.is_open else self.record).copy()

    def first_cotangents(
        self, outputs: Iterable[tuple[int | None, Any]], seeds: Sequence[Any], what: str
    ) -> dict[int, Any]:
        """Return the initial cotangents of a pass, by key.

        Args:
            outputs: the key of each result, or None if it is not connected, and its value.
            seeds: the user's weights for each result, or None for ones.
            what: the name of the weights in messages.

        Raises:
            SeedError: the weights do not match the results.
        """
        cotangents: dict[int, Any] = {}
        for (key, value), seed in zip(outputs, seeds, strict=True):
            cotangent = make_seed(seed, value, what)
            if key is None:
                continue
            if value.dtype.kind not in INEXACT:
                cotangents.setdefault(key, ZERO)
            else:
                prior = cotangents.get(key)
                cotangents[key] = cotangent if prior is None or prior is ZERO else prior + cotangent
        return cotangents

    def pass_back(
        self,
        cotangents: dict[int, Any],
        weighed: Collection[int],
        again: bool,
        keep: Collection[int] = (),
        stop: Collection[int] = (),
    ) -> dict[int, Any]:
        """Run a backward pass over the record; see `pull_back`.

        Args:
            cotangents: the initial cotangents; changed in place.
            weighed: the keys of those whose exact zeros mean "not used", as the user's weights.
            again: keep the record for another pass.
            keep, stop: see `pull_back`.
        """
        record = self.edges() if again else self._taken()
        self.outline = outline_if_cut(self.trace, record)
        self.targets = tuple(cotangents)
        if self.trace.locks is not None:
            self.trace.locks.check()
        masked = weighed and [key for key in weighed if may_hold_zeros(cotangents[key])]
        return pull_back(record, cotangents, keep, stop, masked)

    def _taken(self) -> list[Entry]:
        """Return the record, to be consumed."""
        if self.trace.level:
            self.pause()
        self.is_used = True
        record, self.record = self.record, []
        return record


_NUMBERS = {np.float64, np.complex128, type(None)}


class Input:
    """A container whose differentiable leaves are inputs of a trace.

    Args:
        trace: the trace.
        tree: the container.
        user: the function of which it is an argument; None if no function runs.

    Attributes:
        tree: the container with tensors of the trace in place of those leaves.
        primals: the leaves as arrays or lower tensors, None for those that are not inputs.
        keys: the keys of the leaves in the record, None for those that are not inputs.
    """

    def __init__(self, trace: ReverseTrace, tree: Any, user: Callable[..., Any] | None = None) -> None:
        self.leaves, self._treedef = flatten(tree)
        self.primals: list[Any] = []
        # The keys are stored separately, since the user's function may assign to the tensors.
        self.keys: list[int | None] = []
        traced = []
        for leaf in self.leaves:
            primal = differentiable(leaf)
            if type(primal) is Tensor:
                primal = own_handle(primal)
            elif user is not None and type(primal) not in _NUMBERS:
                primal = trace.held(primal, name_of(user))
            tensor = leaf if primal is None else like_argument(trace.root(primal), leaf)
            self.primals.append(primal)
            self.keys.append(None if primal is None else tensor._mark)
            traced.append(tensor)
        self.tree = unflatten(self._treedef, traced)

    def numbers_without_gradient(self, function: Callable[..., Any], place: Place) -> list[str]:
        """Describe the leaves that are numbers without a derivative: integers, booleans, arrays of other libraries."""
        if None not in self.keys:
            return []
        return [
            f"{place_name(function, place)}{path} is {described(leaf)}"
            for path, leaf, primal in zip(paths(self.tree), self.leaves, self.primals, strict=True)
            if primal is None and (is_number(leaf) or is_array_of_others(leaf))
        ]

    def is_traced(self) -> bool:
        """Return whether any leaf is an input."""
        return self.keys.count(None) < len(self.keys)

    def gradients(self, cotangents: dict[int, Any], unconnected: str) -> Any:
        """Return a container of gradients, with None for leaves that have none."""
        found = [
            None if key is None else gradient_at_edge(cotangents.get(key), primal, unconnected)
            for key, primal in zip(self.keys, self.primals, strict=True)
        ]
        return unflatten(self._treedef, found)

    def nested(self, values: Iterator[Any]) -> Any:
        """Return a container with the next of `values` for each differentiable leaf, and None for the others."""
        return unflatten(self._treedef, [None if key is None else next(values) for key in self.keys])


def described(leaf: Any) -> str:
    """Return what an argument without a derivative is, for messages."""
    if is_array_of_others(leaf):
        return f"an array of {package_of(type(leaf))} of type {leaf.dtype}"
    dtype = leaf.dtype if hasattr(leaf, "dtype") else type(leaf).__name__
    return f"of type {dtype}" if getattr(leaf, "shape", ()) else f"{leaf!r}, of type {dtype}"


class Linearization(Recording):
    """A function traced at a point: its result, and the passes that pull cotangents back.

    Args:
        function: the user's function.
        args, keywords: the call.
        places: the arguments to differentiate.
        has_aux: the function returns a pair, of which only the first item is differentiated.
        variables: whether the variables that the function reads are inputs, too.
        transform: the name of the transform if it requires floating-point inputs, and others raise; else empty.
        outlives: whether passes run after the transform has returned, when the user may have overwritten the arguments.
        ones: whether the seeds of the pass are ones.

    Attributes:
        result, aux: the results of the function, without the trace.
        inputs: the traced arguments, by place.

    Raises:
        NoResultError: the function returned None.
        OutputError: it returned something that is not a number, array or tensor.
        DetachedError: it returned a plain number after a value had left the trace.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        keywords: dict[str, Any],
        places: Sequence[Place],
        has_aux: bool = False,
        variables: bool = False,
        transform: str = "",
        outlives: bool = False,
        ones: bool = False,
    ) -> None:
        trace = ReverseTrace(ends_with_call=not outlives)
        super().__init__(trace, variables)
        self.function = function
        self._places = places
        self.inputs: dict[Place, Input] = {}
        self.begin()

        def arguments() -> Any:
            positional, named = list(args), dict(keywords)
            for place in places:
                holder: Any = positional if isinstance(place, int) else named
                given = self.inputs[place] = Input(trace, holder[place], function)
                holder[place] = given.tree
            if transform:
                refuse_integers(transform, function, self.inputs)
            if self._program is not None:
                self._start = self._program.count()  # after what the arguments have recorded
            return positional, named

        # Without variables the watch records nothing, but other threads need not miss what is read here.
        leaves, self.treedef, aux = run_connected(trace, function, arguments, self.watch, has_aux)
        self.record, trace.record = trace.record, []
        results: list[Any] = []
        for leaf in leaves:
            if type(leaf) is Tensor and leaf._trace is trace:
                results.append(boxed(leaf._payload))
                self.outputs.append((leaf._mark, leaf._payload))
            else:
                results.append(untraced(leaf))
                self.outputs.append((None, as_payload(leaf) if type(leaf) is not Tensor else leaf))
        given = [] if outlives else [primal for each in self.inputs.values() for primal in each.primals]
        self.aux = owned_tree(aux, given) if has_aux else None
        self._leaves = results
        if ones and self._program is not None:
            self.shorten()
        self._leaves = owned(self._leaves, given)
        self.result = unflatten(self.treedef, self._leaves)

    @override
    def roots(self) -> list[tuple[int, Any]]:
        found = [pair for each in self.inputs.values() for pair in zip(each.keys, each.primals, strict=True)]
        return [*((key, primal) for key, primal in found if key is not None), *super().roots()]

    @override
    def replace(self, trace: ReverseTrace, keys: dict[int, int], results: dict[Any, Any]) -> None:
        connected = [place for place, (key, _) in enumerate(self.outputs) if key is not None]
        super().replace(trace, keys, results)
        for place in connected:
            self._leaves[place] = boxed(self.outputs[place][1])
        for each in self.inputs.values():
            each.keys = [None if key is None else keys.get(key, ~key) for key in each.keys]

    def pull(
        self, seeds: object, what: str, again: bool = False, weighed: Sequence[bool] | None = None
    ) -> dict[int, Any]:
        """Pull seeds, with the structure of the result, back to the inputs; None means ones.

        Args:
            seeds, what, again: as above; see `pass_back`.
            weighed: whether exact zeros of each seed mean "not used"; by default those of all given seeds.

        Raises:
            SeedError: the seeds do not match the result.
            TapeError: an earlier pass, without `again`, has consumed the record.
        """
        if self.is_used:
            raise errors.TapeError(
                f"the record of {name_of(self.function)} can only be used to compute one set of gradients.\n"
                "Make the function of dy with persistent=True to call it more than once."
            )
        matched = [None] * len(self._leaves) if seeds is None else match_seeds(seeds, self.result, what)
        cotangents = self.first_cotangents(self.outputs, matched, what)
        if weighed is None:
            return self.pass_back(cotangents, () if seeds is None else cotangents, again)
        used = {key for (key, _), own in zip(self.outputs, weighed, strict=True) if not own}
        return self.pass_back(cotangents, cotangents.keys() - used, again)

    def plain_result(self) -> str | None:
        """Describe the result if it holds no tensor, so that no part of it can be traced."""
        if Tensor in map(type, self._leaves):
            return None
        if not self.watch.chosen and not any(traced.is_traced() for traced in self.inputs.values()):
            return None  # no input can be traced: another message says so
        kind = type(self._leaves[0]).__name__
        return f"{name_of(self.function)} returned a plain {kind}, {self._leaves[0]!r}, and no tensor"

    def gradients(self, cotangents: dict[int, Any], unconnected: str) -> list[Any]:
        """Return the gradient of each traced argument, in the order of the places."""
        return [self.inputs[place].gradients(cotangents, unconnected) for place in self._places]

    def variable_gradients(self, cotangents: dict[int, Any]) -> list[tuple[Any, Variable]]:
        """Return the gradient of each variable that was read, in the order of their creation."""
        chosen = self.watch.chosen
        return [(gradient_at_edge(cotangents.get(chosen[v]), v), v) for v in self.watch.variables()]


def _as_dataclass(instance: Any) -> str:
    """Return a hint on how to register a dataclass, with its non-numeric fields named."""
    name = type(instance).__name__
    fields = [field.name for field in dataclasses.fields(instance)]
    static = [each for each in fields if isinstance(getattr(instance, each, None), (str, bytes, bool, type(None)))]
    options = f"({name}, static={static!r})" if static else f"({name})"
    return f", or let its class be a container of its arrays: fg.register_dataclass{options}"


def instead_of(leaf: Any, instead: str = "Choose other arguments with argnums") -> str:
    """Return what to write instead of an argument that is not a number; first of all, to leave it out."""
    if isinstance(leaf, (str, bytes)):
        return instead
    if hasattr(leaf, "tocsr"):
        return f"{instead}, or make it fgrad.scipy.sparse.csr_array(a), a container of its elements"
    if package_of(type(leaf)) in ("jax", "jaxlib"):
        return (
            "Pass np.asarray(x); or take the derivative to JAX, whose arrays it then takes and returns: "
            "fg.compile(fg.grad(f), backend='jax'), or under jax.jit fg.to_jax(fg.grad(f))"
        )
    if is_array_of_others(leaf):
        return "Pass np.asarray(x), of floating-point numbers"
    if dataclasses.is_dataclass(type(leaf)):
        return instead + _as_dataclass(leaf)
    return f"{instead}, or let its class be a container of its arrays: fg.register_pytree_node, fg.register_dataclass"


def refuse_integers(transform: str, function: Callable[..., Any], inputs: dict[Place, Input]) -> None:
    """Raise if an argument to differentiate holds integers or booleans, or no numbers."""
    for place, traced in inputs.items():
        if traced.keys and None not in traced.keys:  # common case
            continue
        if not traced.is_traced() and (traced.leaves or traced.tree is None):
            first: Any = traced.leaves[0] if traced.leaves else None
            if not is_number(first):
                what = described(first) if traced.leaves else "None"
                instead = instead_of(first) if traced.leaves else "Choose other arguments with argnums"
                dtype = str(first.dtype) if hasattr(type(first), "dtype") else ""
                of_integers = dtype.startswith(("int", "uint", "bool"))
                is_numeric = of_integers or dtype.startswith(("float", "complex"))
                raise (errors.IntegerInputError if of_integers else errors.NonNumericInputError)(
                    f"{transform} of {name_of(function)}: the argument {place_name(function, place)} is {what}"
                    f"{'' if is_numeric else ', which is not a number'}.\n{instead}."
                )
        for description in traced.numbers_without_gradient(function, place):
            kinds = {getattr(getattr(leaf, "dtype", None), "kind", "i") for leaf in traced.leaves}
            raise (errors.IntegerInputError if kinds.isdisjoint("OUSTVMm") else errors.NonNumericInputError)(
                f"{transform} of {name_of(function)}: the argument {description}, which has no derivative.\n"
                "Pass a floating-point number (3.0 instead of 3, x.astype(float)), "
                "or choose other arguments with argnums."
            )
