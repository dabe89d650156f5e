"""SciPy's functions for tensors, by SciPy's names."""
