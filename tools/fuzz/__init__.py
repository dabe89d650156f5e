"""Random programs that look for silent wrong answers: `make fuzz`.

    case.py                 what a family answers for a seed
    differences.py          a judge: derivatives of a plain function by differences, with an estimate of their error
    infinitesimals.py       a judge: exact derivatives in numbers with infinitesimals, apart from fgrad
    scipy_calls.py          family `scipy`: calls of the tables in tests/, and special functions against mpmath
    transforms.py           family `transforms`: stacks of transforms over random functions
    tensorflow_programs.py  family `tensorflow`: programs whose answers TensorFlow has given
    threads.py              family `threads`: the same work alone, and in several threads at once
    numpy_programs.py       family `numpy`: the programs of tests/test_random_programs.py

A family is a function of a seed, and the seed says everything: what a run prints reproduces its failures.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The tables of calls and the programs of NumPy statements are the tests' own.
if str(ROOT / "tests") not in sys.path:
    sys.path.append(str(ROOT / "tests"))
