"""`tf.contrib`: its gradient functions."""

from fgrad.compat.tensorflow.contrib import eager as eager
from fgrad.compat.tensorflow.missing import missing

__getattr__ = missing(__name__)
