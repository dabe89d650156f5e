"""Functions with custom derivatives, and functions that are run again: custom rules, checkpoints, solvers."""

import fgrad.core  # noqa: F401  # fills its tables before a module here is loaded
