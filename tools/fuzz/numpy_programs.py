"""Family `numpy`: programs of NumPy statements that write into arrays and their views.

The programs and what judges them are those of `tests/test_random_programs.py`; a seed says one program here.
"""

from __future__ import annotations

import numpy as np
import test_random_programs as programs

from fuzz.case import RIGHT, WRONG, Outcome


def run(seed: int) -> Outcome:
    """Return what comes of the program that a seed says: first and second order, and a batch."""
    program = programs.drawn(np.random.default_rng(seed))
    for fault in (programs.fault, programs.fault_of_second_order, programs.fault_of_a_batch):
        problem = fault(program)
        if problem is not None and fault is programs.fault:
            program, problem = programs.shrunk(program, problem)
        if problem is not None:
            return Outcome(WRONG, programs.replay(program), problem)
    return Outcome(RIGHT, programs.source(program))
