"""How the data and functions of other libraries meet tensors."""
