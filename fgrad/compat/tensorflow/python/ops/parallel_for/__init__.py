"""`tensorflow.python.ops.parallel_for`: Jacobians in graphs."""

from fgrad.compat.tensorflow.missing import missing
from fgrad.compat.tensorflow.python.ops.parallel_for import gradients as gradients

__all__ = ["gradients"]

__getattr__ = missing(__name__)
