"""Functions with custom derivatives, and functions that are run again: custom rules, checkpoints, solvers."""

import fgrad.core  # noqa: F401  # whose tables are filled before a module of this room is loaded
