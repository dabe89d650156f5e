"""TensorFlow 1 from its first line: `import fgrad.compat.tensorflow1 as tf`, in graph mode from the start.

The names are those of `fgrad.compat.tensorflow`. The difference is the default mode: calls are
deferred to a graph until `tf.enable_eager_execution()`.

    >>> import fgrad.compat.tensorflow1 as tf
    >>> x = tf.placeholder(tf.float32)
    >>> y = tf.gradients(x * x, x)[0]
    >>> with tf.Session() as session:
    ...     session.run(y, feed_dict={x: 3.0})
    np.float32(6.0)
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any

from fgrad.compat import tensorflow
from fgrad.compat.deferred.mode import TENSORFLOW_1
from fgrad.compat.tensorflow.initializers import Initializer
from fgrad.compat.tensorflow.layers import Dense
from fgrad.compat.tensorflow.random import Generator
from fgrad.compat.tensorflow.rnn_cell import RNNCell

_ROOT = tensorflow.__name__


class Variable(tensorflow.Variable):
    """See `fgrad.compat.tensorflow.Variable`."""

    def __new__(cls, *args: Any, **keywords: Any) -> Any:
        with TENSORFLOW_1.active():
            return tensorflow.Variable(*args, **keywords)


def _bound(value: Any) -> Any:
    """Return the object of a name: a function is called in this namespace's mode."""
    if value is tensorflow.Variable:
        return Variable
    if isinstance(value, types.ModuleType) and value.__name__.startswith(_ROOT + "."):
        return sys.modules[__name__ + value.__name__.removeprefix(_ROOT)]
    if isinstance(value, type) and issubclass(value, (Initializer, Generator, Dense, RNNCell)):
        public = [name for name in dir(value) if not name.startswith("_") or name == "__call__"]
        methods = {name: getattr(value, name) for name in public}
        return type(value.__name__, (value,), {n: _in_mode(m) for n, m in methods.items() if _is_function(m)})
    return _in_mode(value) if _is_function(value) else value


def _is_function(value: object) -> bool:
    return isinstance(value, types.FunctionType)


def _in_mode(function: Callable[..., Any]) -> Any:
    """Return a function, or the function of a method, that is called in this namespace's mode."""

    @functools.wraps(function)
    def call(*args: object, **keywords: object) -> Any:
        with TENSORFLOW_1.active():
            return function(*args, **keywords)

    return call


class _Module(types.ModuleType):
    """A module with the names of another one, bound to this namespace's mode."""

    def __init__(self, name: str, source: types.ModuleType) -> None:
        super().__init__(name, source.__doc__)
        self.__path__: list[str] = []
        self._source = source

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = _bound(getattr(self._source, name))
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return dir(self._source)


for _name, _source in list(sys.modules.items()):
    if _name.startswith(_ROOT + "."):
        sys.modules[__name__ + _name.removeprefix(_ROOT)] = _Module(__name__ + _name.removeprefix(_ROOT), _source)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = _bound(getattr(tensorflow, name))
    return value


def __dir__() -> list[str]:
    return dir(tensorflow)
