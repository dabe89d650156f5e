"""Losses over partitioned data; each partition stays with a worker of a `dask.distributed` cluster.

    value_and_grad(loss, client=client)(params, partitions)        the value and the gradient of the sum over partitions
    hvp(loss, client=client)(params, v, partitions)                the Hessian of that sum times a vector
    run(loss, params, partitions, steps, optimizer, client=client) optimizer steps, with checkpoints
    Partitions(parts, client=client)                               data sent to the workers once

The loss of one part is ordinary Python, `loss(params, part)`, and the total loss is the sum over the parts, added
in an order that depends on their number alone: the same to the last bit for any number of workers. Without a client
the same sum is computed in this process.

    >>> import numpy as np
    >>> import fgrad.distributed
    >>> def loss(slope, part):
    ...     x, y = part
    ...     return np.sum((slope * x - y) ** 2)
    >>> parts = [(np.array([1.0, 2.0]), np.array([2.0, 4.0])), (np.array([3.0]), np.array([7.0]))]
    >>> fgrad.distributed.value_and_grad(loss)(2.0, parts)
    (Tensor(1.), Tensor(-6.))

Import it by name. It needs `pip install 'fgrad[distributed]'`, here and on the workers.
"""

import importlib.util as _util
import typing as _typing

import fgrad.core as _core  # noqa: F401  # first, so that threads import it in one order
from fgrad import errors as _errors
from fgrad.errors import hints as _names

if _util.find_spec("distributed") is None:
    raise _errors.MissingExtraError(
        "fgrad.distributed needs the library dask.distributed, which is not installed: "
        "pip install 'dask[array,distributed]'"
    )

from fgrad.distributed.derivatives import hvp as hvp
from fgrad.distributed.derivatives import value_and_grad as value_and_grad
from fgrad.distributed.partitions import Partitions as Partitions
from fgrad.distributed.running import run as run

__all__ = ["Partitions", "hvp", "run", "value_and_grad"]

__dir__ = __all__.copy

if not _typing.TYPE_CHECKING:  # so that type checkers still report undefined attributes

    def __getattr__(name):
        raise _names.missing_name(__name__, name)
