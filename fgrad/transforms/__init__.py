"""What makes functions out of functions: gradients, products, Jacobians, batches, rules, programs."""
