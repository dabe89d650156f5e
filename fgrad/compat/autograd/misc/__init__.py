"""Flattening of containers, optimizers, fixed points and recorded programs."""

from fgrad.compat.autograd.misc.flatten import flatten
from fgrad.compat.autograd.misc.tracers import const_graph

__all__ = ["const_graph", "flatten"]
