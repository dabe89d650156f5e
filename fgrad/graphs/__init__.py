"""The program that a function runs, written down."""

# ruff: noqa: F401  # what is imported for the tables of this room that it fills

import fgrad.engines.jax.engine
import fgrad.graphs.loop_rules
