"""Functions with derivatives of their own, and functions that are run again: custom rules, checkpoints, solvers."""
