"""How candidates are timed that run alternately."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

Candidates = dict[str, Callable[[], Any]]


def fastest(candidates: Candidates, rounds: int) -> dict[str, float]:
    """Return the seconds of the fastest call of each candidate; they run alternately."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, candidate in candidates.items():
            start = time.perf_counter()
            candidate()
            seconds[name].append(time.perf_counter() - start)
    return {name: min(each) for name, each in seconds.items()}
