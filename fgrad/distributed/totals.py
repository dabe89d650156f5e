"""The sum of the results of all parts, by the workers of a cluster or in this process.

    Totals(client).total(program, trees, partitions)      the sums, and the list of aux

On a cluster this takes one message to each worker with the numbers of the step, and one message to the scheduler for
each level of the summation tree. If a worker is lost, the sum is computed again from the same numbers.
"""

from __future__ import annotations

import time
from concurrent.futures import CancelledError
from typing import Any

import distributed
from distributed.comm.core import CommClosedError

from fgrad import errors
from fgrad.distributed.partials import FAN_IN, Failure, Share, added, aux_of, levels, share, share_of
from fgrad.distributed.partitions import Partitions, as_partitions
from fgrad.distributed.programs import Point, Program, Sent

_LOST = (CancelledError, CommClosedError, TimeoutError)
"""Errors after the loss of a worker: its data are lost, or a message to it failed."""
_ATTEMPTS = 5
"""How often a sum is attempted; each lost worker costs one attempt, and more losses mean a broken cluster."""
_PAUSE = 0.1
"""Seconds, times the number of the attempt, for the scheduler to register the loss of a worker."""
_GLANCE = 1.0
"""Seconds between two checks that the workers are alive."""
_LARGE = 1 << 18
"""Size in bytes from which numbers are passed from worker to worker; smaller data go to one worker and are fetched."""


Sum = tuple[Share | Failure, list[Any]]
"""The sum of the results of all parts, and the aux of each."""


class Totals:
    """Computes sums over partitions; caches the data that it has sent."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self._partitions: Partitions | None = None
        self._sent: tuple[str, Any] | None = None

    def total(self, program: Program, trees: list[Any], given: Any) -> tuple[list[Any], list[Any]]:
        """Return the sum of a function's results over all parts, at containers `trees`, and the aux of each."""
        self._partitions = partitions = as_partitions(given, self.client, self._partitions)
        if self.client is None:
            total, aux = _here(program, program.point(trees), partitions)
        else:
            total, aux = self._repeated(program, trees, partitions)
        if isinstance(total, Failure):
            raise _partition_error(program.name, total, len(partitions))
        return total.terms, aux

    def _repeated(self, program: Program, trees: list[Any], partitions: Partitions) -> Sum:
        """Return the sum on the cluster, again if workers are lost with data that they need."""
        sent = program.sent()
        point = program.point(trees)
        attempt = 1
        while True:
            try:
                return self._on_cluster(program, sent, point, partitions)
            except _LOST as error:
                if attempt >= _ATTEMPTS or self.client.status != "running":
                    raise errors.PartitionError(
                        f"{program.name} could not be computed for {len(partitions)} partitions: workers were lost in "
                        f"each of {attempt} attempts. If they ran out of memory, make smaller parts.\n"
                        f"The last error: {type(error).__name__}: {error!s:.300}"
                    ) from error
            time.sleep(_PAUSE * attempt)
            attempt += 1

    def _on_cluster(self, program: Program, sent: Sent, point: Point, partitions: Partitions) -> Sum:
        client, parts, places = self.client, partitions.placed(), partitions.places()
        program_and_point = {"sent": self._program(sent), "point": self._at_workers(point)}
        shares: list[Any] = [None] * len(parts)
        for address, numbers in places.items():
            there = {} if address is None else {"workers": [address]}
            own = [parts[number] for number in numbers]
            for number, future in zip(
                numbers, client.map(share, numbers, own, pure=False, **there, **program_and_point), strict=True
            ):
                shares[number] = future
        tree = [shares]
        for _ in levels(len(parts))[1:]:
            groups = [tree[-1][start : start + FAN_IN] for start in range(0, len(tree[-1]), FAN_IN)]
            tree.append(client.map(added, groups, pure=False))
        aux = client.map(aux_of, shares, pure=False) if program.has_aux else []
        try:
            self._wait(tree[-1][0], {address for address in places if address is not None})
            return tree[-1][0].result(), client.gather(aux)
        except _LOST:
            raise
        except Exception as error:
            failed = next((number for number, each in enumerate(shares) if each.status == "error"), None)
            if failed is None:
                raise
            raise _task_error(program.name, failed, len(shares), error) from error

    def _wait(self, total: Any, addresses: set[str]) -> None:
        """Wait for a sum while all workers that it depends on are alive.

        Raises:
            CancelledError: a worker is lost, and a task that only it could run would wait forever.
        """
        while True:
            try:
                distributed.wait(total, timeout=_GLANCE)  # type: ignore[no-untyped-call]
                return
            except TimeoutError:
                if not addresses <= set(self.client.nthreads()):
                    raise CancelledError from None

    def _program(self, sent: Sent) -> Any:
        """Return a future of a function, which is sent if it has changed."""
        if self._sent is None or self._sent[0] != sent.digest or self._sent[1].cancelled():
            self._sent = sent.digest, self._at_workers(sent)
        return self._sent[1]

    def _at_workers(self, value: Any) -> Any:
        """Send data to all workers, and return a future.

        Small data are the argument of a task, which the scheduler stores and repeats if its worker is lost.
        """
        if size_of(value) < _LARGE:
            return self.client.submit(same, value, pure=False)
        return self.client.scatter([value], broadcast=True, hash=False)[0]


def same(value: Any) -> Any:
    """Return a value unchanged: the task by which it is sent to a worker."""
    return value


def size_of(value: Any) -> int:
    """Return approximately how many bytes bytes objects and arrays have, nested in lists and tuples."""
    if isinstance(value, (list, tuple)):
        return sum(map(size_of, value))
    return len(value) if isinstance(value, bytes) else int(getattr(value, "nbytes", 8))


def _here(program: Program, point: Point, partitions: Partitions) -> Sum:
    """Return the sum in this process, with the same grouping as on the cluster."""
    sizes, aux = levels(len(partitions)), []

    def node(level: int, place: int) -> Share | Failure:
        if level:
            below = range(place * FAN_IN, min((place + 1) * FAN_IN, sizes[level - 1]))
            return added([node(level - 1, each) for each in below])
        found = share_of(lambda: program.result(partitions.parts[place], point), place, lambda error: error)
        aux.append(aux_of(found))
        return found

    return node(len(sizes) - 1, 0), aux


def _partition_error(name: str, failure: Failure, count: int) -> errors.PartitionError:
    error = failure.error
    first = (str(error).splitlines() or [""])[0]
    where = f"\n  at {failure.line}" if failure.line else ""
    found = errors.PartitionError(
        f"{name} failed for partition {failure.number} of {count}: {type(error).__name__}: {first}{where}",
        failure.number,
    )
    if error.__traceback__ is None:  # the exception is from a worker
        error.add_note(f"Raised by a worker:\n\n{failure.text}")
    found.__cause__ = error
    return found


def _task_error(name: str, number: int, count: int, error: Exception) -> errors.PartitionError:
    """Return the error for an unfinished task: a part was not computed, or no worker survives it."""
    what = f"partition {number} of {count} could not be made, or {name} could not be computed for it"
    if isinstance(error, distributed.KilledWorker):
        what = f"all workers that had partition {number} of {count} to compute {name} for were lost; if they ran out "
        what += "of memory, make smaller parts"
    return errors.PartitionError(f"{what}: {type(error).__name__}: {error!s:.300}", number)
