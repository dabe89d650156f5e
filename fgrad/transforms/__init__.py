"""Transforms, from functions to functions: gradients, products, Jacobians, batches, rules, programs."""

import fgrad.core  # noqa: F401  # whose tables are filled before a module of this room is loaded
