"""`tf.compat`: TensorFlow 1's names."""

from fgrad.compat.tensorflow.compat import v1 as v1
