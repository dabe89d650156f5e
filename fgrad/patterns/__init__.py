"""Sparse derivatives: sparsity patterns, colorings, and Jacobians and Hessians computed with them."""
