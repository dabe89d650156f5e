"""`tensorflow.python.ops`: Jacobians in graphs."""

from fgrad.compat.tensorflow.missing import missing
from fgrad.compat.tensorflow.python.ops import parallel_for as parallel_for

__all__ = ["parallel_for"]

__getattr__ = missing(__name__)
