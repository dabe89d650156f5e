"""`tensorflow.python.training`: moving averages."""

from fgrad.compat.tensorflow.missing import missing
from fgrad.compat.tensorflow.python.training import moving_averages as moving_averages

__all__ = ["moving_averages"]

__getattr__ = missing(__name__)
