"""Run a program from the same state of random numbers each time: `python -m clients.script program.py`."""

import runpy
import sys
from pathlib import Path

from clients.seeded import seed

if __name__ == "__main__":
    seed()
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
    runpy.run_path(sys.argv[0], run_name="__main__")
