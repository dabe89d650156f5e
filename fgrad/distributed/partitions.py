"""Partitions of data, and their locations.

    Partitions(parts, client=client)      parts that are stored on the workers
    as_partitions(given, client)          the same from a user's argument

Parts computed by tasks of the cluster are futures: they stay in place, and dask recomputes them if a worker is lost.
Other parts are sent to the workers, and sent again after a loss, so their arrays must not be modified.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterable
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import distributed
import numpy as np
from dask.base import is_dask_collection

from fgrad import errors


class Partitions:
    """Parts of data, stored on the workers of a cluster.

    Args:
        parts: the arguments of the loss, one per call: arrays, tuples or dicts of arrays, or any other picklable
            objects. They are sent to the workers immediately and spread evenly. Futures, from `client.submit`,
            `client.map` or `client.compute`, stay in place; tuples, lists and dicts may contain futures.
        client: a `distributed.Client` of the cluster; None keeps the parts in this process.

    Arrays must not be overwritten while the partitions are used: if a worker is lost, its parts
    are sent again, and a modified array is then an error.

    Raises:
        ParameterError: a ValueError; there are no parts, `client` is invalid, a part is a dask collection, or it is a
            future and there is no client.

    Example:
        >>> parts = Partitions([np.array([1.0, 2.0]), np.array([3.0])])
        >>> parts
        <2 partitions in this process>
    """

    def __init__(self, parts: Iterable[Any], client: Any = None) -> None:
        self.client = checked_client(client)
        self.parts = _checked_parts(parts, client)
        self._placed: dict[int, Any] = {}
        self._digests: dict[int, str] = {}
        if client is not None:
            own = [number for number, part in enumerate(self.parts) if not _futures_in(part)]
            self._digests = {number: digest_of(self.parts[number]) for number in own}
            self._send(own)

    def __len__(self) -> int:
        return len(self.parts)

    def __repr__(self) -> str:
        return f"<{len(self)} partitions {'in this process' if self.client is None else f'of {self.client!r}'}>"

    def placed(self) -> list[Any]:
        """Return the parts as arguments of tasks: futures, or containers of them; lost parts are sent again.

        Raises:
            PartitionError: a lost part cannot be recovered.
        """
        lost = [number for number, future in self._placed.items() if future.cancelled()]
        for number in lost:
            if digest_of(self.parts[number]) != self._digests[number]:
                raise errors.PartitionError(
                    f"partition {number} was lost with its worker, and the array that it was sent from has been "
                    "overwritten since.\nDo not modify the arrays of partitions, or pass copies.",
                    number,
                )
        self._send(lost)
        found = [self._placed.get(number, part) for number, part in enumerate(self.parts)]
        for number, part in enumerate(found):
            if any(future.cancelled() for future in _futures_in(part)):
                raise errors.PartitionError(
                    f"partition {number} of {len(self)} is lost, and cannot be recovered: it was "
                    "cancelled, or was sent by client.scatter to a worker that was lost.\nCompute it by a task, "
                    "client.submit(load, name), or pass the arrays themselves.",
                    number,
                )
        return found

    def places(self) -> dict[str | None, list[int]]:
        """Return the parts by the address of their worker; None is the key of parts without one.

        A part is assigned to one worker, even if others have copies. Dask would move parts between workers for load
        balance, but parts are large.
        """
        first = [
            next(iter(_futures_in(self._placed.get(number, part))), None) for number, part in enumerate(self.parts)
        ]
        holders = self.client.who_has([future for future in first if future is not None])
        places: dict[str | None, list[int]] = {}
        for number, future in enumerate(first):
            there = holders.get(future.key, ()) if future is not None else ()
            chosen = min(there, key=lambda address: len(places.get(address, ())), default=None)
            places.setdefault(chosen, []).append(number)
        return places

    def _send(self, numbers: list[int]) -> None:
        """Send parts, neighbours to one worker, so that their gradients are added on this worker first."""
        if not numbers:
            return
        addresses = list(self.client.nthreads()) or [None]  # if there is no worker, dask waits for one
        for address, block in zip(addresses, np.array_split(numbers, len(addresses)), strict=True):
            parts = [self.parts[number] for number in block]
            futures = self.client.scatter(parts, workers=address and [address], hash=False) if parts else []
            self._placed.update(zip(map(int, block), futures, strict=True))

    def holds(self, parts: list[Any]) -> bool:
        """Return whether parts are the same objects as these partitions, with the same contents."""
        return len(parts) == len(self) and all(
            digest_of(part) == self._digests[number] if number in self._digests else part is self.parts[number]
            for number, part in enumerate(parts)
        )


def as_partitions(given: Any, client: Any, before: Partitions | None = None) -> Partitions:
    """Return partitions from a user's argument; those of the previous call, if the parts are the same."""
    if isinstance(given, Partitions):
        if given.client is not client:
            raise errors.ParameterError(f"the partitions are {given!r}, and the client is {client!r}.")
        return given
    parts = _checked_parts(given, client)
    if before is not None and before.client is not None and before.holds(parts):
        return before
    return Partitions(parts, client)


def digest_of(part: Any) -> str:
    """Return a hash of the contents of a part."""
    buffers: list[pickle.PickleBuffer] = []
    digest = hashlib.blake2b(cloudpickle.dumps(part, protocol=5, buffer_callback=buffers.append))
    for buffer in buffers:
        digest.update(buffer.raw())
    return digest.hexdigest()


def checked_client(client: Any) -> Any:
    """Return a client, after a check that it is one."""
    if client is not None and (not isinstance(client, distributed.Client) or client.asynchronous):
        raise errors.ParameterError(
            f"client must be a distributed.Client that is not asynchronous, but it is {client!r:.200}.\n"
            "Write client=distributed.Client(cluster), or client=None to compute in this process."
        )
    return client


def _checked_parts(parts: object, client: object) -> list[Any]:
    """Return parts as a list."""
    if not isinstance(parts, Iterable) or isinstance(parts, (np.ndarray, dict, str)) or is_dask_collection(parts):
        raise errors.ParameterError(
            f"the partitions must be a list of parts, but their type is {type(parts).__name__}.\n"
            "Write [part, ...]; for a dask collection, distributed.futures_of(client.persist(collection))."
        )
    found = list(parts)
    if not found:
        raise errors.ParameterError("there are no partitions: the list is empty.")
    for number, part in enumerate(found):
        if is_dask_collection(part):
            raise errors.ParameterError(
                f"partition {number} is a {type(part).__name__}, which dask would compute anew at each step.\n"
                "Pass futures, which are computed once: client.compute(parts)."
            )
        if client is None and _futures_in(part):
            raise errors.ParameterError(f"partition {number} is on a cluster: pass its client, client=client.")
    return found


def _futures_in(part: Any) -> list[Any]:
    """Return the futures in a part, nested in lists, tuples and dicts."""
    if isinstance(part, distributed.Future):
        return [part]
    inside = part.values() if type(part) is dict else part if type(part) in (list, tuple) else ()
    return [future for each in inside for future in _futures_in(each)]
