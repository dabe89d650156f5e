"""Transforms, from functions to functions: gradients, products, Jacobians, batches, rules, programs."""

import fgrad.core  # noqa: F401  # fills its tables before a module here is loaded
