"""`tensorflow.python`: the parts of TensorFlow's inside that programs import."""

from fgrad.compat.tensorflow.missing import missing
from fgrad.compat.tensorflow.python import ops as ops
from fgrad.compat.tensorflow.python import training as training

__all__ = ["ops", "training"]

__getattr__ = missing(__name__)
