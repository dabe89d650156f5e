"""Family `numpy`: programs of NumPy statements that write into arrays and their views.

The programs and what judges them are those of `tests/test_random_programs.py`; a seed says one program here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import test_random_programs as programs

from fuzz.case import RIGHT, UNDECIDED, WRONG, Outcome


def run(seed: int) -> Outcome:
    """Return what comes of the program that a seed says: first and second order, and a batch."""
    program = programs.drawn(np.random.default_rng(seed))
    for fault in (programs.fault, programs.fault_of_a_batch, programs.fault_of_second_order):
        problem = fault(program)
        if problem is None:
            continue
        if fault is programs.fault:
            program, problem = programs.shrunk(program, problem)
        elif fault is programs.fault_of_second_order and depends_on_the_step(program):
            return Outcome(UNDECIDED, programs.source(program), "second differences depend on the step")
        return Outcome(WRONG, programs.replay(program), problem)
    return Outcome(RIGHT, programs.source(program))


def depends_on_the_step(program: Any) -> bool:
    """Return whether second differences of the plain run with half the step are other ones."""
    f, x = programs.compiled(programs.source(program)), programs.X[program[0]]
    first, second = programs.DIRECTIONS[x.shape]

    def differs(along: Any) -> bool:
        whole, half = (programs.curvature(f, x, along, first, step) for step in (2e-3, 1e-3))
        return bool(programs.differs(half, whole, 1e-6))

    return differs(first) or differs(second)
