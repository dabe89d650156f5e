"""`tf.autodiff`: derivatives by TensorFlow 2's names."""

from fgrad.accumulator import ForwardAccumulator as ForwardAccumulator
from fgrad.compat.tensorflow.gradient import GradientTape as GradientTape
from fgrad.compat.tensorflow.missing import missing

__getattr__ = missing(__name__)
