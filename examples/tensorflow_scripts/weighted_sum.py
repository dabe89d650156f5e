"""The gradients of a weighted sum in four ways, as a script for TensorFlow 1.15 in eager mode.

    python examples/tensorflow_scripts/weighted_sum.py

needs TensorFlow 1.15. With `fgrad.compat.tensorflow1` in place of `tensorflow` in the imports below, it
needs fgrad.
"""

import tensorflow as tf
import tensorflow.contrib.eager as tfe

tf.enable_eager_execution()

w1 = tf.Variable(2.0, name="w1")
w2 = tf.Variable(3.0, name="w2")


def weighted_sum(x1, x2):
    """Weigh two numbers with the variables."""
    return w1 * x1 + w2 * x2


def weighted_sum_of_all(w1, w2, x1, x2):
    """Weigh two numbers with two others."""
    return w1 * x1 + w2 * x2


gradients = tfe.gradients_function(weighted_sum)(5.0, 7.0)
print("by x1 and x2:", [gradient.numpy() for gradient in gradients])

by_name = tfe.value_and_gradients_function(weighted_sum_of_all, params=["w1", "w2"])
value, gradients = by_name(2.0, 3.0, 5.0, 7.0)
print("by name, with the value:", value.numpy(), [gradient.numpy() for gradient in gradients])

pairs = tfe.implicit_gradients(weighted_sum)(5.0, 7.0)
print("by the variables:", [(gradient.numpy(), variable.name) for gradient, variable in pairs])

value, pairs = tfe.implicit_value_and_gradients(weighted_sum)(5.0, 7.0)
optimizer = tf.train.GradientDescentOptimizer(learning_rate=0.1)
optimizer.apply_gradients(pairs)
print("the value, and the variables after a step:", value.numpy(), w1.numpy(), w2.numpy())
