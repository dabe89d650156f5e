"""How a measure of diabetes depends on body mass: linear regression, as a script for TensorFlow 1.

    python examples/tensorflow_scripts/linear_regression.py

needs TensorFlow 1. With `import fgrad.compat.tensorflow1 as tf` in place of the import below, it needs fgrad.
"""

import tensorflow as tf
from sklearn.datasets import load_diabetes

patients, progress = load_diabetes(return_X_y=True)
mass = patients[:, 2]
mass = (mass - mass.mean()) / mass.std()
progress = (progress - progress.mean()) / progress.std()

x = tf.placeholder(tf.float32, shape=[None], name="x")
y = tf.placeholder(tf.float32, shape=[None], name="y")
slope = tf.Variable(0.0, name="slope")
offset = tf.Variable(0.5, name="offset")
loss = tf.reduce_mean(tf.square(slope * x + offset - y))

step = tf.Variable(0, trainable=False, name="step")
optimizer = tf.train.GradientDescentOptimizer(learning_rate=0.1)
gradients = optimizer.compute_gradients(loss)
clipped = [(tf.clip_by_value(gradient, -1.0, 1.0), variable) for gradient, variable in gradients]
train = optimizer.apply_gradients(clipped, global_step=step)

with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for number in range(1, 101):
        _, value = session.run([train, loss], feed_dict={x: mass, y: progress})
        if number % 20 == 0:
            print(f"step {number:3}   loss {value:.6f}")
    print("after {} steps   slope {:.6f}   offset {:.6f}".format(*session.run([step, slope, offset])))
