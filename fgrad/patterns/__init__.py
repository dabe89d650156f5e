"""Sparse derivatives: patterns of dependence, colorings, and the Jacobians and Hessians that are found by them."""
