"""Graphs: recorded programs of functions, their loops and their derivatives."""

# ruff: noqa: F401  # imported to fill the tables of this package

import fgrad.engines.jax.engine
import fgrad.graphs.loop_rules
