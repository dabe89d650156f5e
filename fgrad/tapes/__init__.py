"""What is opened by hand, in a `with` block: the gradient tape and the forward accumulator."""
