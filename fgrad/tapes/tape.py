"""The gradient tape: records the operations of a `with` block, to be differentiated afterwards.

A tape is a reverse trace that is opened by hand. While the block runs, the trace owns the record; afterwards the tape
does, so the record is freed with the tape, even if tensors are left.
"""

from __future__ import annotations

import contextlib
import warnings
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad import errors
from fgrad.core.coerce import is_of_objects
from fgrad.core.foreign import INEXACT
from fgrad.core.layers import below, layers
from fgrad.core.primitive import BOXES
from fgrad.core.reverse import ReverseTrace
from fgrad.core.tensor import Tensor, box, boxed, renewed, strip_ended
from fgrad.core.trace import Trace, is_seen, notify_copy, running, substituted
from fgrad.core.tree import flatten, leaves_and_nones, paths, tree_map, unflatten
from fgrad.core.variable import Variable
from fgrad.errors.places import depth_of_user
from fgrad.transforms.batch import vmap
from fgrad.transforms.calls import one_call
from fgrad.transforms.cuts import name_of_source, warn_of_cuts
from fgrad.transforms.jacobians import unit_directions
from fgrad.transforms.linearization import (
    Recording,
    UnconnectedGradients,
    check_unconnected,
    gradient_at_edge,
    match_seeds,
)
from fgrad.typing import Array, ArrayLike


class GradientTape:
    """Records operations on watched tensors and variables, and computes gradients afterwards.

    Operations of other threads on a watched tensor are recorded too; reads of variables only in the thread, or
    asynchronous task, that opened the tape, and in functions that run in a copy of its context
    (`contextvars.copy_context().run(function)`, `asyncio.to_thread`). A NoGradientWarning is issued if a trainable
    variable was read in another thread.

    Two tapes give a second derivative if the gradient of the tape that started later is taken while the earlier one
    records. The other way round gives None: values of the later, inner tape are constants to the outer one after the
    inner tape has ended.

    Args:
        persistent: allow any number of gradients. A gradient taken inside the block is then itself recorded, so that it
            can be differentiated again. A persistent tape keeps its record until it is freed or reset.
        watch_accessed_variables: watch every trainable variable that is read.

    Example:
        >>> import fgrad as fg
        >>> x = fg.constant(3.0)
        >>> with fg.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = x * x
        >>> tape.gradient(y, x)
        Tensor(6.)
    """

    _explains_none = True
    """Whether a gradient that is None for a reason that is easily overlooked comes with a warning."""

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        self._persistent = persistent
        self._watch_accessed = watch_accessed_variables
        self._recording: Recording | None = None
        self._lost: list[_Lost] = []
        self._refused: set[int] = set()
        self._watched: dict[int, tuple[str, int]] = {}
        self._handles: dict[int, tuple[weakref.ref[Tensor], int]] = {}  # by id, with their keys

    def __enter__(self) -> GradientTape:
        if self._is_recording():
            raise errors.TapeStateError(
                "Tape is still recording: this with block opens a tape that is already open.\n"
                "Use a second GradientTape for a second derivative."
            )
        if self._recording is None or self._recording.is_used:
            self._start()
        try:
            self._resume()
        except BaseException:  # an interrupt: the block is not entered
            self._pause()
            raise
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._is_recording():
            try:
                self._pause()
            except BaseException:  # an interrupt during the first call
                self._pause()
                raise
            recording_of(self).trace.__exit__(*exception)
            if self._explains_none:
                recording_of(self).warn_of_other_threads()

    def _start(self) -> None:
        """Start an empty record."""
        trace = ReverseTrace(self._persistent)
        trace.holder = weakref.ref(self)
        self._watched, self._handles = {}, {}
        self._recording = Recording(trace, self._watch_accessed)
        self._recording.begin()

    def _resume(self) -> None:
        recording_of(self).resume()

    def _pause(self) -> None:
        recording_of(self).pause()

    def answers_for(self, trace: Trace) -> bool:
        """Return whether this tape can still compute gradients from the record of a trace."""
        return self._recording is not None and self._recording.trace is trace and not self._recording.is_used

    def _is_recording(self) -> bool:
        return self._recording is not None and self._recording.is_open

    def _check_usable(self) -> None:
        if self._recording is None:
            raise errors.TapeError(
                "this GradientTape was never entered: nothing has been recorded.\n"
                "Compute inside its block, `with tape:`."
            )
        if self._recording.is_used:
            raise errors.TapeError(
                "A non-persistent GradientTape can only be used to compute one set of gradients.\n"
                "Create it with GradientTape(persistent=True) to compute several."
            )

    def watch(self, tensor: Any) -> None:
        """Make tensors inputs of the tape: operations on them are recorded from now on.

        Args:
            tensor: a Tensor or Variable, or a container of them.

        Raises:
            WatchError: a ValueError; the object is neither.
            TapeError: a RuntimeError; the tape was never entered, or has been used.
        """
        leaves = leaves_and_nones(tensor)
        for leaf in leaves:
            if type(leaf) not in BOXES:
                raise errors.WatchError(
                    f"Passed in object {leaf!r} of type {type(leaf).__name__!r}, not a Tensor or "
                    "Variable.\n"
                    "Make a tensor of it first, x = fg.constant(value), and compute with x."
                )
        self._check_usable()
        for leaf in leaves:
            if leaf.dtype.kind not in INEXACT:
                warn_of_integers("watched tensor", leaf)
                self._refused.add(id(leaf))
            elif isinstance(leaf, Variable):
                recording_of(self).watch.choose(leaf)
            else:
                self._watch_tensor(leaf)

    def _watch_tensor(self, tensor: Tensor) -> None:
        trace = recording_of(self).trace
        if not self._is_recording() or key_of(self, tensor) is not None:
            return
        key = trace.root(None)._mark
        self._watched[key] = errors.users_place()
        self._handles[id(tensor)] = weakref.ref(tensor), key
        put_layer(tensor, trace, key)

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: str = UnconnectedGradients.NONE,
    ) -> Any:
        """Return the gradient of `target` with respect to each of `sources`.

        Args:
            target: a Tensor or Variable or a container of them; several, and elements, are summed.
            sources: a Tensor or Variable or a container of them.
            output_gradients: weights, with the structure of the target; a scalar applies to a whole tensor, None inside
                means ones.
            unconnected_gradients: the gradient of an unconnected source: `UnconnectedGradients.NONE` or `.ZERO`.

        Returns:
            Gradients with the structure of `sources`, each of the shape and dtype of its source. None for a source that
            is not connected to the target; with a NoGradientWarning, which is a UserWarning, if the source holds
            integers or is not watched, or if the target does not depend on any watched tensor or variable.

        Raises:
            TapeError: a RuntimeError; the tape was never entered, or has been used.
            SourceError: a TypeError; a target or source is not a tensor.
            SeedError: a ValueError; `output_gradients` does not match the target.

        Example:
            >>> import fgrad as fg
            >>> w, b = fg.Variable(2.0), fg.Variable(1.0)
            >>> with fg.GradientTape() as tape:
            ...     y = w * 3.0 + b
            >>> tape.gradient(y, {"w": w, "b": b})
            {'w': Tensor(3.), 'b': Tensor(1.)}
        """
        gradients = gradient_of(self, target, sources, output_gradients, unconnected_gradients)
        if unconnected_gradients == UnconnectedGradients.NONE:
            warn_of_none(self)
        return gradients

    def jacobian(self, target: Any, sources: Any, unconnected_gradients: str = UnconnectedGradients.NONE) -> Any:
        """Return the Jacobian of `target` with respect to each of `sources`.

        Args:
            target: a Tensor or Variable.
            sources: a Tensor or Variable or a container of them.
            unconnected_gradients: the Jacobian of an unconnected source: `UnconnectedGradients.NONE` or `.ZERO`.

        Returns:
            Arrays with the structure of `sources`, each of shape `target.shape + source.shape`. None where
            `gradient` gives None, with its NoGradientWarning.

        Raises:
            TapeError: a RuntimeError; the tape was never entered, or has been used.
            SourceError: a TypeError; the target is not one tensor, or a source is not a tensor.

        Example:
            >>> import fgrad as fg
            >>> w = fg.Variable([1.0, 2.0])
            >>> with fg.GradientTape() as tape:
            ...     y = w * w
            >>> tape.jacobian(y, w)
            Tensor([[2., 0.],
                    [0., 4.]])
        """
        self._check_target(target, sources, unconnected_gradients)
        jacobian = jacobian_on(self, target, sources, unconnected_gradients)
        if unconnected_gradients == UnconnectedGradients.NONE:
            warn_of_none(self)
        return jacobian

    def batch_jacobian(self, target: Any, source: Any, unconnected_gradients: str = UnconnectedGradients.NONE) -> Any:
        """Return the Jacobian of each row of `target` with respect to the same row of `source`.

        The rows are assumed to be independent examples. If a row of the target depends on other rows of the source, the
        result is the sum over the rows of the target, which is not a Jacobian of a row.

        Args:
            target: a Tensor of shape `(n, ...)`.
            source: a Tensor or Variable of shape `(n, ...)`.
            unconnected_gradients: the Jacobian of an unconnected source: `UnconnectedGradients.NONE` or `.ZERO`.

        Returns:
            A Tensor of shape `(n,) + target.shape[1:] + source.shape[1:]`. None where `gradient` gives None, with its
            NoGradientWarning.

        Raises:
            TapeError: a RuntimeError; the tape was never entered, or has been used.
            SourceError: a TypeError; the target or the source is not one tensor.
            ShapeError: a ValueError; fewer than two axes, or different numbers of rows.

        Example:
            >>> import fgrad as fg
            >>> x = fg.constant([[1.0, 2.0], [3.0, 4.0]])
            >>> with fg.GradientTape() as tape:
            ...     tape.watch(x)
            ...     y = x * x
            >>> tape.batch_jacobian(y, x)[1]
            Tensor([[6., 0.],
                    [0., 8.]])
        """
        self._check_target(target, source, unconnected_gradients)
        if type(source) not in BOXES:
            raise errors.SourceError(f"batch_jacobian takes one Tensor or Variable as source, not {source!r:.200}.")
        jacobian = batch_jacobian_on(self, target, source, unconnected_gradients)
        if unconnected_gradients == UnconnectedGradients.NONE:
            warn_of_none(self)
        return jacobian

    def _check_target(self, target: Any, sources: Any, unconnected: str) -> None:
        check_unconnected(unconnected)
        self._check_usable()
        if type(target) not in BOXES:
            raise errors.SourceError(
                f"a Jacobian needs one Tensor or Variable as target, not {target!r:.200}." + _instead("target", target)
            )
        check_tensors("sources", sources)

    def _pulled_seeds(
        self, target: Any, seeds: Any, sources: Any, unconnected: str, stop_gradients: Sequence[Any]
    ) -> Any:
        """Return the gradients for each of several seeds of the target, along a new first axis."""
        if self._is_recording() and not self._persistent:
            self._pause()

        def pull(seed: Array) -> Any:
            return [self._pulled([target], [seed], sources, unconnected, True, None, stop_gradients)]

        return vmap(pull)(seeds)[0]

    def stop_recording(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which nothing is recorded.

        Raises:
            TapeError: a RuntimeError; the tape was never entered.
            TapeStateError: a ValueError; it is not recording.

        Example:
            >>> import fgrad as fg
            >>> x = fg.constant(3.0)
            >>> with fg.GradientTape() as tape:
            ...     tape.watch(x)
            ...     with tape.stop_recording():
            ...         scale = x * x
            ...     y = scale * x
            >>> tape.gradient(y, x)
            Tensor(9.)
        """
        return self._without_recording(errors.users_place())

    @contextlib.contextmanager
    def _without_recording(self, place: tuple[str, int]) -> Iterator[None]:
        if self._recording is None:
            raise errors.TapeError("Trying to stop recording a tape which is not recording: it was never entered.")
        self._check_recording()
        self._recording.trace.exits.setdefault(("stop_recording()", place), {})
        with paused(self):
            yield

    def reset(self) -> None:
        """Discard the record and all watches, and continue recording.

        Raises:
            TapeStateError: a ValueError; the tape is not recording.
        """
        self._check_recording()
        self._pause()
        self._start()
        self._resume()

    def _check_recording(self) -> None:
        if not self._is_recording():
            raise errors.TapeStateError("Tape is not recording.")

    def watched_variables(self) -> tuple[Variable, ...]:
        """Return the variables that the tape has watched, in the order of their creation."""
        return () if self._recording is None else self._recording.watch.variables()

    def _pulled(
        self,
        targets: Sequence[Any],
        seeds: Sequence[Any],
        sources: Any,
        unconnected: str,
        is_weighed: bool,
        again: bool | None = None,
        stop: Sequence[Any] = (),
    ) -> Any:
        """Run a pass over the record, and return the gradients of the sources."""
        recording, again = recording_of(self), self._persistent if again is None else again
        cotangents = first_cotangents(self, targets, seeds)
        if self._is_recording() and not again:
            self._pause()
        leaves, treedef = flatten(sources)
        keys = [key_of(self, leaf) for leaf in leaves]
        keep = {key for key in keys if key is not None}
        stop_keys = {key for key in (key_of(self, x) for x in stop) if key is not None}
        cotangents = one_call(recording.pass_back, cotangents, cotangents if is_weighed else (), again, keep, stop_keys)
        _check_written(self, leaves, keys, cotangents)
        lost = [i for i, key in enumerate(keys) if key is None or key not in cotangents]
        names = paths(sources) if lost else []
        self._lost = [
            _Lost(name_of_source(leaves[i], names[i]), keys[i], self._why_never(leaves[i], keys[i])) for i in lost
        ]
        return unflatten(
            treedef,
            [
                _at_edge(None if key is None else cotangents.get(key), leaf, unconnected)
                for key, leaf in zip(keys, leaves, strict=True)
            ],
        )

    def _why_never(self, source: Array, key: int | None) -> str | None:
        """Return why a source without a gradient cannot have one; "" if `watch` has warned about that already.

        None: the function's mathematics may be the reason.
        """
        if id(source) in self._refused:
            return ""
        if source.dtype.kind not in INEXACT:
            return (
                f"it has dtype {source.dtype}, and only floating-point and complex numbers have gradients. Write 3.0 "
                "for 3, or x.astype(float)"
            )
        if isinstance(source, Variable):
            return None
        if key is None and watched_before(self, source) is not None:
            return (
                "the tape watched it, and it has been assigned to since, so that it holds other numbers. Call "
                "tape.gradient before the assignment, or assign to a copy: y = x.copy()"
            )
        if key is None:
            return "the tape does not watch it. Call tape.watch(x) in the tape's block, before x is used"
        targets = recording_of(self).targets
        if targets and key > max(targets):
            return (
                "it was computed, or watched, only after the target. The target comes first: "
                "tape.gradient(target, sources)"
            )
        return None


class _Lost(NamedTuple):
    """A source whose gradient is None.

    Attributes:
        name: the name in messages.
        key: its key in the record.
        reason: why it cannot have a gradient; None: the function's mathematics may be the reason.
    """

    name: str
    key: int | None
    reason: str | None


def recording_of(tape: GradientTape) -> Recording:
    """Return the recording of a tape that was entered."""
    assert tape._recording is not None
    return tape._recording


def layer_of(trace: Trace, x: Array) -> Tensor | None:
    """Return the layer of a tensor that belongs to a trace."""
    return next((layer for layer in layers(renewed(x)) if layer._trace is trace), None)


class Contents(NamedTuple):
    """The data of a tape.

    Attributes:
        recording: its recording.
        watched: the places where tensors were watched, by key.
    """

    recording: Recording
    watched: dict[int, tuple[str, int]]


def contents_of(tape: GradientTape) -> Contents | None:
    """Return the data of a tape, or None if it was never entered."""
    return None if tape._recording is None else Contents(tape._recording, tape._watched)


@contextlib.contextmanager
def paused(tape: GradientTape) -> Iterator[None]:
    """Return a context in which a tape does not record."""
    recording = tape._is_recording()
    if recording:
        tape._pause()
    try:
        yield
    except GeneratorExit:  # an interrupt while the block was left; the current context may be another one
        raise
    except BaseException:
        if recording and not recording_of(tape).is_used:
            tape._resume()
        raise
    if recording and not recording_of(tape).is_used:
        tape._resume()


def key_of(tape: GradientTape, x: Array) -> int | None:
    """Return the key of a tensor or variable in the record of a tape."""
    recording = recording_of(tape)
    if isinstance(x, Variable):
        return recording.watch.chosen.get(x)
    layer = watched_layer_of(recording.trace, x)
    return None if layer is None else layer._mark


def watched_layer_of(trace: Trace, x: Array) -> Tensor | None:
    """Return the layer of a tensor, or of its current replacement, that belongs to a trace."""
    layer = layer_of(trace, x)
    return layer_of(trace, substituted(x)) if layer is None and is_seen() and type(x) is Tensor else layer


def put_layer(tensor: Tensor, trace: Trace, mark: Any) -> None:
    """Make a tensor an input of a trace: insert a layer, below those of traces that started later.

    Layers of traces that can no longer be queried are dropped, so that they do not accumulate in a tensor that is
    watched repeatedly.
    """
    value: Any = renewed(boxed(substituted(tensor)) if is_seen() else tensor)
    kept_layers = [(layer._trace, layer._mark) for layer in layers(value) if _can_be_asked(layer._trace)]
    value = below(value)
    for tracing, kept in sorted([(trace, mark), *kept_layers], key=lambda layer: layer[0].rank):
        value = box(value, tracing, kept)
    notify_copy(value)
    if not any(observer.watched(tensor, value) for observer in running.observers):
        tensor._rebind(value)


def _can_be_asked(trace: Trace) -> bool:
    """Return whether a trace runs, or belongs to a tape or accumulator that can still be queried."""
    keeper = trace.holder()
    return trace.level > 0 or (keeper is not None and keeper.answers_for(trace))


def warn_of_integers(what: str, x: Any) -> None:
    """Warn the caller's caller about a tensor that has no gradient."""
    warnings.warn(
        f"the {what} has dtype {x.dtype}; only floating-point and complex tensors have gradients. Write 3.0 for 3, or "
        "x.astype(float)",
        errors.NoGradientWarning,
        stacklevel=3,
    )


def check_tensors(what: str, tree: Any) -> None:
    """Raise if a container holds anything but tensors and variables."""
    for leaf in leaves_and_nones(tree):
        if type(leaf) not in BOXES:
            raise errors.SourceError(
                f"{what} must be a Tensor, a Variable or a container of them; it holds {leaf!r} "
                f"of type {type(leaf).__name__}.{_instead(what, leaf)}"
            )


def _instead(what: str, leaf: object) -> str:
    """Return a hint on what was probably forgotten if `leaf` is not a tensor."""
    if leaf is None:
        return "\nDid a function forget to return a value?"
    if is_of_objects(leaf):
        return "\nMake one tensor of the numbers inside the tape's block: np.stack([x, y]), or fgrad.numpy.array."
    if callable(leaf):
        return "\nCall the function inside the tape's block, and pass its result."
    if isinstance(leaf, (int, float, complex, np.ndarray, np.generic)):
        made = "Compute it from tensors or variables" if what in ("target", "ys") else "Pass the tensor itself"
        return f"\n{made}: x = fg.constant(value), tape.watch(x), and no float(x) or x.numpy() on the way."
    return ""


def first_cotangents(tape: GradientTape, targets: Sequence[Any], seeds: Sequence[Any]) -> dict[int, Any]:
    """Return the initial cotangents of a pass, by key, for those targets that are in the tape's record."""
    recording, outputs = recording_of(tape), []
    for target in targets:
        if isinstance(target, Variable) and target.trainable and recording.watch.all_trainable:
            recording.watch.choose(target)  # a gradient of a variable counts as a read
        layer = layer_of(recording.trace, target)
        outputs.append((key_of(tape, target), plain_value(target if layer is None else layer._payload)))
    return recording.first_cotangents(outputs, seeds, "output_gradients")


def _check_written(
    tape: GradientTape, sources: Sequence[Any], keys: list[int | None], cotangents: dict[int, Any]
) -> None:
    """Raise if a source was written to after it was watched, and the target depends only on its earlier value.

    A watched view is no longer traced after a write to its root: values computed with it from then on are not connected
    to the tape.
    """
    for source, key in zip(sources, keys, strict=True):
        watched = watched_before(tape, source)
        if watched is None or key in cotangents:
            continue
        if key is None and is_view(source):
            raise lost_view("a source", source.shape)
        if key is not None and watched in cotangents:
            raise errors.WatchError(
                f"a source of shape {source.shape} was written to after the tape watched it, and the target depends "
                "on its value before.\nCompute the gradient before the write, or write into a copy: y = x.copy()."
            )


def watched_before(tape: GradientTape, x: Array) -> int | None:
    """Return the key with which a tape watched a tensor, which may have been assigned to since; None if it did not."""
    handle, key = tape._handles.get(id(x), (None, None))
    return key if handle is not None and handle() is x else None


def is_view(x: Array) -> bool:
    """Return whether a tensor is a view of another one."""
    return type(x) is Tensor and type(x._alias) is tuple


def lost_view(what: str, shape: tuple[int, ...]) -> errors.WatchError:
    """Return the error for a view that is no longer traced; `what` names it."""
    return errors.WatchError(
        f"{what} of shape {shape} is a view, and its base was written to after the view was "
        "watched.\nWatch the base, or a copy of the view: x = view.copy()."
    )


def plain_value(x: Array) -> Any:
    """Return the value of a tensor or variable, without a read of the variable."""
    return x._shown() if isinstance(x, Variable) else strip_ended(x)


def gradient_of(
    tape: GradientTape, target: Any, sources: Any, output_gradients: Any = None, unconnected: str = "none"
) -> Any:
    """Return the result of `GradientTape.gradient`, without its warnings."""
    check_unconnected(unconnected)
    tape._check_usable()
    if is_of_objects(target) and output_gradients is not None:
        output_gradients = np.broadcast_to(output_gradients, target.shape).tolist()
    target = tree_map(lambda leaf: leaf.tolist() if is_of_objects(leaf) else leaf, target)
    check_tensors("target", target)
    check_tensors("sources", sources)
    seeds = match_seeds(output_gradients, target, "output_gradients")
    return tape._pulled(flatten(target)[0], seeds, sources, unconnected, output_gradients is not None)


def shortened(tape: GradientTape, target: Any) -> Any:
    """Return the only target of a tape, with ones as its seed, after the record of its variables has been shortened."""
    recording = recording_of(tape)
    layer = layer_of(recording.trace, target)
    if layer is None or tape._watched:
        return target
    recording.outputs = [(layer._mark, layer._payload)]
    recording.shorten()
    ((key, value),) = recording.outputs
    return boxed(value) if key is None else box(value, recording.trace, key)


def warn_of_none(tape: GradientTape) -> None:
    """Warn of sources whose last gradient was None for a reason other than the function's mathematics."""
    recording, lost = recording_of(tape), tape._lost
    if recording.outline is not None:
        known = [(each.name, each.key) for each in lost if each.key is not None]
        warn_of_cuts(recording.outline, known, recording.targets)
    elif tape._explains_none:
        said = [f"the gradient with respect to {each.name} is None: {each.reason}" for each in lost if each.reason]
        if lost and not recording.targets and recording.missed is None and all(each.reason is None for each in lost):
            said = [
                "every gradient is None: the target does not depend on any tensor or variable that the tape watches. "
                "Compute it in the tape's block, from variables or from tensors that the tape watches"
            ]
        for each in said:
            warnings.warn(each + "; fgrad.explain tells more", errors.NoGradientWarning, stacklevel=depth_of_user())


def _at_edge(cotangent: object, source: Array, unconnected: str) -> Any:
    if source.dtype.kind not in INEXACT:
        cotangent = None
    return gradient_at_edge(cotangent, plain_value(source), unconnected)


def departures(tape: GradientTape) -> list[str]:
    """Return where values left the tape, such as by `.item()` or `.numpy()`: `how at file:line`."""
    return [f"{how} at {errors.line_at(place)}" for how, place in recording_of(tape).trace.exits]


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    stop_gradients: Any = None,
    unconnected_gradients: str = UnconnectedGradients.NONE,
) -> list[Any]:
    """Return the gradients of `ys` with respect to `xs`, from the record of a tape.

    The tape is open, or persistent; its record is not consumed.

    Args:
        ys: a tensor or a list of them, which are summed.
        xs: a tensor or variable, or a list of them.
        grad_ys: weights for `ys`, in a list; None inside means ones.
        stop_gradients: tensors that are treated as constants: no gradient passes through them.
        unconnected_gradients: the gradient of an unconnected x: `UnconnectedGradients.NONE` or `.ZERO`.

    Returns:
        A list with one gradient for each of `xs`.

    Raises:
        TapeError: a RuntimeError; no open or persistent tape has recorded `ys`.
        SourceError: a TypeError; an element of `ys` or `xs` is not a tensor.
        SeedError: a ValueError; `grad_ys` does not match `ys`.

    Example:
        >>> import fgrad as fg
        >>> a = fg.constant(1.0)
        >>> with fg.GradientTape(persistent=True) as tape:
        ...     tape.watch(a)
        ...     b = 2 * a
        ...     c = a + b
        >>> fg.gradients(c, [a, b])
        [Tensor(3.), Tensor(1.)]
        >>> fg.gradients(c, [a, b], stop_gradients=[a, b])
        [Tensor(1.), Tensor(1.)]
    """
    check_unconnected(unconnected_gradients)
    ys, xs, stop = _as_list(ys), _as_list(xs), [] if stop_gradients is None else _as_list(stop_gradients)
    for what, tensors in (("ys", ys), ("xs", xs), ("stop_gradients", stop)):
        check_tensors(what, tensors)
    if not ys:
        return [_at_edge(None, x, unconnected_gradients) for x in xs]
    grad_ys = None if grad_ys is None else _as_list(grad_ys)
    return gradients_on(_recorder(ys), ys, xs, grad_ys, stop, unconnected_gradients)


def gradients_on(
    tape: GradientTape,
    ys: list[Any],
    xs: list[Any],
    grad_ys: list[Any] | None = None,
    stop_gradients: Sequence[Any] = (),
    unconnected_gradients: str = UnconnectedGradients.NONE,
) -> list[Any]:
    """Return the result of `gradients`, from the record of one tape, which is not consumed."""
    seeds = match_seeds(grad_ys, ys, "grad_ys")
    found = tape._pulled(ys, seeds, xs, unconnected_gradients, grad_ys is not None, True, stop_gradients)
    return found  # type: ignore[no-any-return]


def jacobian_on(
    tape: GradientTape,
    target: Any,
    sources: Any,
    unconnected: str = UnconnectedGradients.NONE,
    stop_gradients: Sequence[Any] = (),
) -> Any:
    """Return what `GradientTape.jacobian` does, with tensors that are taken as constants."""
    units = unit_directions([plain_value(target)])[0]
    rows = tape._pulled_seeds(target, units, sources, unconnected, stop_gradients)
    return tree_map(lambda x: np.reshape(x, (*target.shape, *x.shape[1:])), rows)


def batch_jacobian_on(
    tape: GradientTape,
    target: Any,
    source: Any,
    unconnected: str = UnconnectedGradients.NONE,
    stop_gradients: Sequence[Any] = (),
) -> Any:
    """Return what `GradientTape.batch_jacobian` does, with tensors that are taken as constants."""
    check_rows(target.shape, source.shape)
    (units,) = unit_directions([np.empty(target.shape[1:], target.dtype)])
    seeds = np.broadcast_to(units[:, None], (len(units), *target.shape))
    rows = tape._pulled_seeds(target, seeds, source, unconnected, stop_gradients)
    if rows is None:
        return None
    return np.reshape(np.moveaxis(rows, 0, 1), (*target.shape, *source.shape[1:]))


def check_rows(target: Sequence[Any], source: Sequence[Any]) -> None:
    """Raise if a target and a source of these shapes are not batches of as many rows; None is a size to come.

    Raises:
        ShapeError: a ValueError; one has fewer than two axes, or they have different numbers of rows.
    """
    for what, shape in (("target", target), ("source", source)):
        if len(shape) < 2:
            raise errors.ShapeError(f"the {what} has shape {shape} and must have rank at least 2.")
    if None not in (target[0], source[0]) and target[0] != source[0]:
        raise errors.ShapeError(f"Need first dimension of target shape {target} and source shape {source} to match.")


def _as_list(x: ArrayLike) -> list[Any]:
    return list(x) if isinstance(x, (list, tuple)) else [x]


def _recorder(ys: list[Any]) -> GradientTape:
    """Return the tape that was started last among those that have recorded one of the tensors."""
    found: list[GradientTape] = []
    for y in ys:
        for trace in (layer._trace for layer in layers(y)):
            holder = trace.holder()
            if isinstance(holder, GradientTape) and holder.answers_for(trace):
                found.append(holder)
    if not found:
        raise errors.TapeError(
            "no open or persistent tape has recorded ys.\n"
            "Compute them inside `with fg.GradientTape(persistent=True) as tape:`, from tensors it watches."
        )
    return max(found, key=lambda tape: recording_of(tape).trace.rank)
