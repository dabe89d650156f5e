"""TensorFlow's own tests of gradients and optimizers, run with `fgrad.compat` in TensorFlow's place."""
