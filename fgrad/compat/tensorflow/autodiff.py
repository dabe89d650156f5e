"""`tf.autodiff`: derivatives by TensorFlow 2's names."""

from fgrad.compat.tensorflow.gradient import GradientTape as GradientTape
from fgrad.compat.tensorflow.missing import missing
from fgrad.tapes.accumulator import ForwardAccumulator as ForwardAccumulator

__getattr__ = missing(__name__)
