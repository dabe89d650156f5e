"""What TensorFlow's tests are made of: the class of test cases with its assertions, and the decorators.

TestCase             `test.TestCase` and `test_util.TensorFlowTestCase`
decorators(tf)       `test_util.run_in_graph_and_eager_modes` and the others
eager_mode(tf)       `context.eager_mode`; and `graph_mode`
"""

from __future__ import annotations

import contextlib
import functools
import gc
import random
import re
import unittest
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

import fgrad
from fgrad.compat import tensorflow
from fgrad.compat.deferred import mode

SEED = 87654321
_TOLERANCES = {np.float16: 1e-3, np.float32: 1e-6, np.complex64: 1e-6}


def values(x: Any) -> Any:
    """Return arrays in place of eager tensors, in any container."""
    if isinstance(x, Mapping):
        return {key: values(each) for key, each in x.items()}
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*map(values, x))
    if type(x) in (list, tuple):
        return type(x)(map(values, x))
    if callable(x) and not hasattr(x, "numpy"):
        return values(x())
    return x.numpy() if hasattr(x, "numpy") else x


class EagerSession:
    """What stands for a session where execution is eager."""

    graph = None

    def run(self, fetches: Any, feed_dict: Any = None) -> Any:
        """Return arrays."""
        if feed_dict:
            raise RuntimeError("nothing can be fed where execution is eager")
        return values(fetches)


class TestCase(unittest.TestCase):
    """A test case with the methods of TensorFlow's.

    Attributes:
        tf: the namespace that is tested.
    """

    tf: Any = None

    def setUp(self) -> None:
        super().setUp()
        self._session: Any = None
        random.seed(SEED)
        np.random.seed(SEED)
        self.tf.reset_default_graph()
        self.tf.set_random_seed(SEED)

    def tearDown(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None
        super().tearDown()

    # Sessions

    @contextlib.contextmanager
    def cached_session(
        self, graph: Any = None, config: Any = None, use_gpu: bool = False, force_gpu: bool = False
    ) -> Iterator[Any]:
        """Yield the session of this test, which stays open until its end."""
        if self.tf.executing_eagerly():
            yield EagerSession()
            return
        if self._session is None:
            self._session = self.tf.Session(graph=graph or self.tf.get_default_graph())
        with self._session.graph.as_default(), self._session.as_default():
            yield self._session

    test_session = cached_session
    test_session.__test__ = False  # type: ignore[attr-defined]

    @contextlib.contextmanager
    def session(
        self, graph: Any = None, config: Any = None, use_gpu: bool = False, force_gpu: bool = False
    ) -> Iterator[Any]:
        """Yield a session of its own."""
        if self.tf.executing_eagerly():
            yield EagerSession()
            return
        with self.tf.Session(graph=graph or self.tf.get_default_graph()) as session:
            yield session

    def evaluate(self, tensors: Any) -> Any:
        """Return arrays, eagerly or by the default session."""
        if self.tf.executing_eagerly():
            return values(tensors)
        session = self.tf.get_default_session()
        if session is not None:
            return session.run(tensors)
        with self.cached_session() as session:
            return session.run(tensors)

    def _array(self, x: Any) -> Any:
        if type(x) in (list, tuple):
            return [self._array(each) for each in x]
        if isinstance(x, (self.tf.Tensor, self.tf.Variable, fgrad.Tensor)):
            return x.numpy() if hasattr(x, "numpy") else self.evaluate(x)
        return x

    # Assertions

    def assertAllClose(self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: Any = None) -> None:
        a, b = (each._asdict() if hasattr(each, "_asdict") else each for each in (a, b))
        if isinstance(a, Mapping):
            self.assertCountEqual(a, b, msg)
            for key in a:
                self.assertAllClose(a[key], b[key], rtol, atol, msg)
            return
        a, b = self._array(a), self._array(b)
        try:
            first, second = np.array(a), np.array(b)
        except ValueError:  # of different lengths
            self.assertEqual(len(a), len(b), msg)
            for one, other in zip(a, b, strict=True):
                self.assertAllClose(one, other, rtol, atol, msg)
            return
        if np.float16 in (first.dtype, second.dtype):
            rtol, atol = max(rtol, 1e-3), max(atol, 1e-3)
        self.assertEqual(first.shape, second.shape, msg)
        np.testing.assert_allclose(first, second, rtol, atol, err_msg=msg or "")

    def assertAllCloseAccordingToType(
        self,
        a: Any,
        b: Any,
        rtol: float = 1e-6,
        atol: float = 1e-6,
        float_rtol: float = 1e-6,
        float_atol: float = 1e-6,
        half_rtol: float = 1e-3,
        half_atol: float = 1e-3,
        bfloat16_rtol: float = 1e-2,
        bfloat16_atol: float = 1e-2,
        msg: Any = None,
    ) -> None:
        found = {np.asarray(self._array(each)).dtype for each in (a, b)}
        if found & {np.dtype(np.float32), np.dtype(np.complex64)}:
            rtol, atol = max(rtol, float_rtol), max(atol, float_atol)
        if np.dtype(np.float16) in found:
            rtol, atol = max(rtol, half_rtol), max(atol, half_atol)
        self.assertAllClose(a, b, rtol, atol, msg)

    def assertAllEqual(self, a: Any, b: Any, msg: Any = None) -> None:
        first, second = np.asarray(self._array(a)), np.asarray(self._array(b))
        self.assertEqual(first.shape, second.shape, msg)
        np.testing.assert_array_equal(first, second, msg or "")

    def assertArrayNear(self, a: Any, b: Any, err: float, msg: Any = None) -> None:
        np.testing.assert_allclose(self._array(a), self._array(b), 0, err, err_msg=msg or "")

    assertNDArrayNear = assertArrayNear

    def assertStartsWith(self, actual: str, start: str, msg: Any = None) -> None:
        self.assertTrue(actual.startswith(start), msg or f"{actual!r} does not start with {start!r}")

    @contextlib.contextmanager
    def assertRaisesWithPredicateMatch(self, kind: Any, predicate: Any) -> Iterator[None]:
        with self.assertRaises(kind) as caught:
            yield
        holds = predicate if callable(predicate) else lambda error: re.search(predicate, str(error))
        self.assertTrue(holds(caught.exception), f"another error than expected: {caught.exception}")

    # Names that Python's test cases had until 3.12.

    def assertEquals(self, *args: Any) -> None:
        self.assertEqual(*args)

    def assertItemsEqual(self, *args: Any) -> None:
        self.assertCountEqual(*args)

    def assertRaisesRegexp(self, *args: Any, **keywords: Any) -> Any:
        return self.assertRaisesRegex(*args, **keywords)


# Modes


@contextlib.contextmanager
def eager_mode(tf: Any) -> Iterator[None]:
    """Return a context in which execution is eager, also inside of a graph's block."""
    own = mode.TENSORFLOW if tf is tensorflow else mode.TENSORFLOW_1
    was_eager, own.eager = own.eager, True
    try:
        with mode.block(None) if mode.open_graph() is not None else contextlib.nullcontext():
            yield
    finally:
        own.eager = was_eager


@contextlib.contextmanager
def graph_mode(tf: Any) -> Iterator[None]:
    """Return a context in which calls are deferred."""
    with tf.Graph().as_default():
        yield


# Decorators

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def decorators(tf: Any) -> dict[str, Any]:
    """Return the decorators of `test_util`, and other functions of it."""

    def in_both(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(self: Any, *args: Any, **keywords: Any) -> None:
            with graph_mode(tf), self.cached_session():
                function(self, *args, **keywords)
            self.tearDown()
            with eager_mode(tf):
                self.setUp()
                function(self, *args, **keywords)

        return run

    def in_graph(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(self: Any, *args: Any, **keywords: Any) -> None:
            with graph_mode(tf) if tf.executing_eagerly() else contextlib.nullcontext():
                function(self, *args, **keywords)

        return run

    def eagerly(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(self: Any, *args: Any, **keywords: Any) -> None:
            with eager_mode(tf):
                function(self, *args, **keywords)

        return run

    return {
        "run_in_graph_and_eager_modes": _optional(in_both),
        "run_all_in_graph_and_eager_modes": _on_class(in_both),
        "run_deprecated_v1": _optional(in_graph),
        "deprecated_graph_mode_only": _optional(in_graph),
        "run_v1_only": lambda *reason: lambda function: function,
        "run_v2_only": _optional(eagerly),
        "run_gpu_only": _optional(_skipped("needs a GPU")),
        "disable_xla": lambda *reason: lambda function: function,
        "assert_no_new_tensors": without_new_tensors,
        "assert_no_garbage_created": without_garbage,
        "assert_no_new_pyobjects_executing_eagerly": lambda f: without_new_objects(eagerly(f)),
        "is_gpu_available": lambda *args, **keywords: False,
        "use_gpu": contextlib.nullcontext,
        "TensorFlowTestCase": TestCase,
    }


def _optional(decorator: Decorator) -> Any:
    """Return a decorator that also takes options before the function."""

    def decorate(function: Any = None, **options: Any) -> Any:
        if function is None:
            return decorate
        return _on_class(decorator)(function) if isinstance(function, type) else decorator(function)

    return decorate


def _on_class(decorator: Decorator) -> Any:
    def decorate(cls: Any) -> Any:
        for name, held in list(vars(cls).items()):
            if name.startswith("test") and callable(held):
                setattr(cls, name, decorator(held))
        return cls

    return decorate


def _skipped(reason: str) -> Decorator:
    return unittest.skip(reason)


def without_new_tensors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a test that fails if tensors are left over after it."""

    @functools.wraps(function)
    def run(self: Any, *args: Any, **keywords: Any) -> None:
        before = {id(each) for each in _tensors()}
        function(self, *args, **keywords)
        self.tf.reset_default_graph()
        gc.collect()
        new = [each for each in _tensors() if id(each) not in before]
        self.assertEqual([], new, "tensors are left over")

    return run


def _tensors() -> list[Any]:
    return [each for each in gc.get_objects() if type(each) is fgrad.Tensor]


def without_garbage(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a test that fails if it leaves objects that hold each other."""

    @functools.wraps(function)
    def run(self: Any, *args: Any, **keywords: Any) -> None:
        gc.collect()
        flags = gc.get_debug()
        gc.set_debug(gc.DEBUG_SAVEALL)
        held = len(gc.garbage)
        try:
            function(self, *args, **keywords)
            gc.collect()
            self.assertEqual([], gc.garbage[held:], "objects hold each other")
        finally:
            gc.set_debug(flags)
            del gc.garbage[held:]

    return run


def without_new_objects(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a test that fails if each run of it leaves more objects."""

    @functools.wraps(function)
    def run(self: Any, *args: Any, **keywords: Any) -> None:
        counts = []
        for _ in range(6):
            function(self, *args, **keywords)
            gc.collect()
            counts.append(len(gc.get_objects()))
        self.assertLessEqual(counts[-1], counts[2] + 1, "each run leaves more objects")  # the list of counts grows

    return run
